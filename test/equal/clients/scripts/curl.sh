# Checks of curl, to be run by bash. curl uses HTTP/2 over https by default.
set -u
maps=$CLIENT_URL/api/v1/namespaces/$CLIENT_NAMESPACE/configmaps
lists=$CLIENT_URL$CLIENT_LISTS
patience=20
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$work"' EXIT

# ask runs curl with the options that all requests share.
ask() { curl -sS -m "$patience" --cacert "$CLIENT_CA" -H "Authorization: Bearer ${token:-$CLIENT_TOKEN}" "$@"; }

# report runs a check and prints its result.
report() {
  local check=$1 message
  shift
  # The output goes to a file: a command substitution would wait for the end of
  # watches that the check leaves open.
  if "$@" >"$work/message" 2>&1; then
    printf '{"check":"%s"}\n' "$check"
    return
  fi
  message=$(tr '\n\t' '  ' <"$work/message" | tr -d '\000-\037' | head -c 1500)
  message=${message//\\/\\\\}
  printf '{"check":"%s","error":"%s"}\n' "$check" "${message//\"/\\\"}"
}

want() {
  [ "$2" = "$3" ] && return
  echo "$1 is '$2', want '$3'"
  return 1
}

create() { ask -o /dev/null -X POST -H 'Content-Type: application/json' -d "$2" "$1" || true; }
create_map() { create "$maps" "{\"metadata\":{\"name\":\"$1\"},\"data\":{\"text\":\"first\"}}"; }
patch() { ask -o /dev/null -f -X PATCH -H 'Content-Type: application/merge-patch+json' -d "{\"data\":{\"text\":\"$2\"}}" "$maps/$1"; }

# body_of SIZE makes a file of SIZE bytes.
body_of() { [ -f "$work/$1" ] || head -c "$1" /dev/zero | tr '\0' ' ' >"$work/$1"; }

# early_case STATUS sets the parameters of a request that is answered with STATUS
# before its body is read.
early_case() {
  method=POST type=application/json url=$maps token=$CLIENT_TOKEN
  case $1 in
  401) token=nobody ;;
  403) token=$CLIENT_WEAK_TOKEN ;;
  404) url=$CLIENT_URL/apis/none.example.com/v1/things ;;
  405) url=$maps/x ;;
  415) method=PATCH url=$maps/x type=text/plain ;;
  esac
}

# answered STATUS COUNT checks that all answers came, with their bodies.
answered() {
  local n
  want "answers with their status" "$(grep -c "^$1\$" "$work/codes")" "$2" || { sort "$work/codes" "$work/errors" | uniq -c; return 1; }
  for ((n = 1; n <= $2; n++)); do
    if [ "$1" = 404 ]; then [ -s "$work/body.$n" ]; else grep -qE "\"code\": ?$1" "$work/body.$n"; fi || { echo "body $n: $(head -c 200 "$work/body.$n")"; return 1; }
  done
}

# early_many STATUS SIZE COUNT OPTIONS sends COUNT requests from one process, which
# chooses the number of its connections.
early_many() {
  local status=$1 size=$2 count=$3 method type url token
  shift 3
  early_case "$status"
  body_of "$size"
  rm -f "$work"/body.*
  ask "$@" -X "$method" -H "Content-Type: $type" -H 'Expect:' --data-binary "@$work/$size" -o "$work/body.#1" \
    -w '%{http_code}\n' "$url?n=[1-$count]" >"$work/codes" 2>"$work/errors"
  answered "$status" "$count"
}

# early_each STATUS COUNT sends each request from a process of its own.
early_each() {
  local status=$1 count=$2 n method type url token
  early_case "$status"
  rm -f "$work"/body.* "$work/codes" "$work/errors"
  for ((n = 1; n <= count; n++)); do
    ask -X "$method" -H "Content-Type: $type" -d '{}' -o "$work/body.$n" -w '%{http_code}\n' "$url" >>"$work/codes" 2>>"$work/errors"
  done
  answered "$status" "$count"
}

early() {
  local version status
  for status in 401 403 404 405 415; do
    report "$status, 2 bytes, a process for each" early_each "$status" $((20 * CLIENT_REPEAT))
  done
  for version in 2 1.1; do
    for status in 401 403 404 405 415; do
      report "$status, 2 bytes, HTTP/$version" early_many "$status" 2 $((20 * CLIENT_REPEAT)) --http$version
      report "$status, 400 KB, HTTP/$version" early_many "$status" 409600 $((10 * CLIENT_REPEAT)) --http$version
      report "$status, 2 MB, HTTP/$version" early_many "$status" 2097152 $((10 * CLIENT_REPEAT)) --http$version
    done
    report "413, 4 MB, HTTP/$version" early_many 413 4194304 $((2 * CLIENT_REPEAT)) --http$version
    report "405, 2 MB, ten at once, HTTP/$version" early_many 405 2097152 10 --http$version --parallel --parallel-max 10
  done
}

# open_watch URL OPTIONS starts a watch. Its lines can be read from descriptor 3. The header
# asks for compression, which the server otherwise keeps for watch-lists.
open_watch() {
  : >"$work/head"
  exec 3< <(patience=60 ask -N -D "$work/head" -H 'X-Millrace-Compress-Watch: 1' "$@" 2>"$work/watch"; echo "ended with $?: $(<"$work/watch")")
}

# await TEXT reads lines until one contains TEXT.
await() {
  local line
  while IFS= read -r -t "$patience" line <&3; do
    [[ $line == *"$1"* ]] && return
    [[ $line == "ended with "* ]] && break
  done
  echo "no line with $1; the last: ${line:0:300}"
  return 1
}

watch_path() { echo "$maps?watch=1&fieldSelector=metadata.name%3D$1&resourceVersion=0&$2"; }

watch_codings() {
  local coding=$1 n
  shift
  open_watch "$(watch_path watched timeoutSeconds=10)" "$@"
  await '"text":"first"' || return
  want Content-Encoding "$(tr -d '\r' <"$work/head" | sed -n 's/^[Cc]ontent-[Ee]ncoding: //p')" "$coding" || return
  for n in 1 2 3 4 5; do
    patch watched "event $n" && await "\"text\":\"event $n\"" || return
  done
  patch watched first
}

end_by_timeout() {
  open_watch "$(watch_path watched timeoutSeconds=1)" "$@"
  await '"text":"first"' && await 'ended with 0'
}

end_by_deletion() {
  local kind=$1 group=$CLIENT_NAMESPACE.example.com url n
  shift
  local definitions=$CLIENT_URL/apis/apiextensions.k8s.io/v1/customresourcedefinitions
  url=$CLIENT_URL/apis/$group/v1/namespaces/$CLIENT_NAMESPACE/${kind,}s
  create "$definitions" "{\"metadata\":{\"name\":\"${kind,}s.$group\"},\"spec\":{\"group\":\"$group\",\"scope\":\"Namespaced\",
    \"names\":{\"kind\":\"$kind\",\"plural\":\"${kind,}s\"},\"versions\":[{\"name\":\"v1\",\"served\":true,\"storage\":true,
    \"schema\":{\"openAPIV3Schema\":{\"type\":\"object\",\"x-kubernetes-preserve-unknown-fields\":true}}}]}}"
  for ((n = 0; n < 100; n++)); do
    ask -f -o /dev/null "$url" 2>/dev/null && break
    sleep 0.1
  done
  create "$url" "{\"apiVersion\":\"$group/v1\",\"kind\":\"$kind\",\"metadata\":{\"name\":\"one\"}}"
  open_watch "$url?watch=1&resourceVersion=0&timeoutSeconds=50" "$@"
  await '"type":"ADDED"' && ask -f -o /dev/null -X DELETE "$definitions/${kind,}s.$group" && await '"type":"DELETED"' && await 'ended with 0'
}

watch() {
  local accepted
  create_map watched
  report "events, Accept-Encoding by default" watch_codings ""
  report "events, --compressed" watch_codings gzip --compressed
  for accepted in identity 'gzip;q=0' x-gzip notgzip 'identity;q=1, gzip;q=0'; do
    report "events, Accept-Encoding $accepted" watch_codings "" --compressed -H "Accept-Encoding: $accepted"
  done
  report "events, --compressed, HTTP/1.1" watch_codings gzip --compressed --http1.1
  report "end by timeoutSeconds" end_by_timeout
  report "end by timeoutSeconds, --compressed" end_by_timeout --compressed
  report "end by timeoutSeconds, --compressed, HTTP/1.1" end_by_timeout --compressed --http1.1
  report "end by deletion of the definition" end_by_deletion Kind1
  report "end by deletion of the definition, --compressed" end_by_deletion Kind2 --compressed
}

# steady FILE removes the resource version of the list itself, which changes with
# every write.
steady() { sed -E '1,6s/"(resourceVersion|continue)": ?"[^"]*"//g' "$1"; }

same_list() {
  local coding=$1 path=$2
  shift 2
  ask -f -o "$work/identity" "$lists$path" && ask -f -o "$work/decoded" -D "$work/head" "$@" "$lists$path" || return
  want Content-Encoding "$(tr -d '\r' <"$work/head" | sed -n 's/^[Cc]ontent-[Ee]ncoding: //p')" "$coding" || return
  cmp <(steady "$work/identity") <(steady "$work/decoded")
}

lists_of() {
  local what=$1 path=$2 version coding
  for version in 2 1.1; do
    for coding in gzip zstd; do
      if curl --version | grep -q "$([ $coding = gzip ] && echo libz || echo zstd)"; then
        report "$what, $coding, HTTP/$version" same_list $coding "$path" --http$version --compressed -H "Accept-Encoding: $coding"
      else
        printf '{"check":"%s","skip":"this curl has no %s"}\n' "$what, $coding, HTTP/$version" $coding
      fi
    done
  done
}

lists() {
  lists_of "500 KB" "?limit=100"
  lists_of "3 MB" ""
  lists_of "one object of 900 KB" /large
}

many_streams() {
  local n
  patience=60 ask --parallel --parallel-max 120 -N -o "$work/stream.#1" "$(watch_path streams timeoutSeconds=10)&n=[1-120]" &
  for ((n = 0; n < 200; n++)); do
    [ "$(cat "$work"/stream.* 2>/dev/null | grep -c first)" -ge 100 ] && break
    sleep 0.05
  done
  patch streams last || return
  wait $! || { echo "curl ended with $?"; return 1; }
  want "watches that saw the last change" "$(grep -l '"text":"last"' "$work"/stream.* | wc -l)" 120
}

streams() {
  create_map streams
  report "120 watches" many_streams
}

gone_list() {
  want status "$(ask -o "$work/list" -w '%{http_code}' "$maps?resourceVersion=5&resourceVersionMatch=Exact&limit=10")" 410 &&
    grep -q '"reason": \?"Expired"' "$work/list"
}

gone_watch() {
  open_watch "$maps?watch=1&resourceVersion=5&timeoutSeconds=30"
  await '"code":410' && await 'ended with 0'
}

gone() {
  report "list of an old version" gone_list
  report "watch from an old version" gone_watch
}

get_many() {
  local count=$1
  shift
  ask "$@" -o /dev/null -w '%{http_code}\n' "$maps/goaway?n=[1-$count]" >"$work/codes" 2>"$work/errors"
  want "answers with 200" "$(grep -c '^200$' "$work/codes")" "$count" || { sort "$work/codes" "$work/errors" | uniq -c; return 1; }
}

goaway() {
  create_map goaway
  report "GET, one after the other" get_many $((200 * CLIENT_REPEAT))
  report "GET, ten at once" get_many $((300 * CLIENT_REPEAT)) --parallel --parallel-max 10
  report "ten watches to their end" watches_to_end
}

watches_to_end() {
  ask --parallel --parallel-max 10 -o "$work/stream.#1" "$(watch_path goaway timeoutSeconds=1)&n=[1-10]" || return
  want "watches with an event" "$(grep -l '"type":"ADDED"' "$work"/stream.* | wc -l)" 10
}

lost() {
  want "requests above 50" "$([ "$(wc -l <"$work/codes")" -gt 50 ] && echo yes)" yes || return
  [ "$(sort -u "$work/codes")" = 200 ] || { sort "$work/codes" | uniq -c; return 1; }
}

# restart sends requests while another server on the same port replaces the server. It
# prints a line when everything is open. It reads a line when the old server has been
# told to end.
restart() {
  local requester plain
  create_map restart
  # A server that ends may answer 503 with Retry-After. The codes go to standard error,
  # which curl does not buffer.
  # exec replaces the subshell by curl, so that kill ends curl itself.
  (exec curl -sS --cacert "$CLIENT_CA" -H "Authorization: Bearer $CLIENT_TOKEN" --rate 50/s \
    -o /dev/null -w '%{stderr}%{http_code}%header{retry-after}\n' "$maps/restart?n=[1-1000000]" >/dev/null 2>"$work/codes") &
  requester=$!
  open_watch "$(watch_path restart timeoutSeconds=50)"
  await '"text":"first"' >/dev/null
  exec 4<&3
  open_watch "$(watch_path restart timeoutSeconds=50)" --compressed
  await '"text":"first"' >/dev/null
  echo '{"ready":true}'
  patience=60
  report "watch ends, --compressed" await 'ended with 0'
  exec 3<&4
  report "watch ends" await 'ended with 0'
  read -r _
  kill $requester
  wait $requester 2>/dev/null
  sed -i '/^503./d' "$work/codes"
  report "requests" lost
}

"$1"
exit 0
