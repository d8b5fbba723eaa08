# Follows compressed watches with curl. follow.py has the protocol.
trap 'kill $(jobs -p) 2>/dev/null' EXIT

follow() {
  local line
  curl -sSN --fail --compressed --cacert "$CLIENT_CA" -H "Authorization: Bearer $CLIENT_TOKEN" \
    -H 'Accept: application/json' -H 'Accept-Encoding: gzip' -H 'X-Millrace-Compress-Watch: 1' "$CLIENT_URL$2" 2>&1 |
    while IFS= read -r line; do printf '%s\t%s\n' "$1" "$line"; done
  local code=${PIPESTATUS[0]}
  if [ "$code" = 0 ]; then printf '%s\tEND\n' "$1"; else printf '%s\tEND curl ends with %s\n' "$1" "$code"; fi
}

while read -r number _ path; do follow "$number" "$path" & done
