#!/bin/sh
# Starts three etcd members, three servers and HAProxy on this machine, and ends them all at
# Ctrl-C. Everything is below DIRECTORY, which may be there from an earlier run.
#
#   local.sh DIRECTORY
#
# MILLRACE, ETCD and HAPROXY name the programs. PORT is where clients go, 6443 by default;
# the ports from PORT+1 to PORT+11 must be free, too.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
millrace=${MILLRACE:-$here/../../bin/millrace}
etcd=${ETCD:-etcd}
haproxy=${HAPROXY:-haproxy}
port=${PORT:-6443}
mkdir -p "${1:?directory}"
dir=$(cd "$1" && pwd)
for program in "$millrace" "$etcd" "$haproxy" openssl; do
  command -v "$program" >/dev/null || { echo "$program is not there: see the top of $0" >&2; exit 1; }
done

"$here/certificates.sh" "$dir/pki"
pki=$dir/pki
client() { echo $((port + 3 + $1)); }   # of etcd member 1, 2 or 3
peer() { echo $((port + 6 + $1)); }
members= endpoints=
for n in 1 2 3; do
  members=$members,etcd-$n=https://127.0.0.1:$(peer $n)
  endpoints=$endpoints,https://127.0.0.1:$(client $n)
done

# run NAME COMMAND... starts a program, whose output goes to a file.
pids= etcd_pids=
run() {
  name=$1
  shift
  "$@" >>"$dir/$name.log" 2>&1 &
  echo $! >"$dir/$name.pid"
  pids="$! $pids"
}
finish() {
  trap - EXIT INT TERM
  trap '' USR1
  # Servers need etcd until they have ended.
  for group in "$pids" "$etcd_pids"; do
    for pid in $group; do kill "$pid" 2>/dev/null || true; done
    for pid in $group; do wait "$pid" || true; done
  done
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 1' USR1 # a server cannot run

for n in 1 2 3; do
  run "etcd-$n" "$etcd" --name="etcd-$n" --data-dir="$dir/etcd-$n" \
    --listen-client-urls="https://127.0.0.1:$(client $n)" --advertise-client-urls="https://127.0.0.1:$(client $n)" \
    --listen-peer-urls="https://127.0.0.1:$(peer $n)" --initial-advertise-peer-urls="https://127.0.0.1:$(peer $n)" \
    --initial-cluster="${members#,}" --initial-cluster-token=millrace-local \
    --client-cert-auth --trusted-ca-file="$pki/etcd-ca.crt" --cert-file="$pki/etcd.crt" --key-file="$pki/etcd.key" \
    --peer-client-cert-auth --peer-trusted-ca-file="$pki/etcd-ca.crt" --peer-cert-file="$pki/etcd.crt" --peer-key-file="$pki/etcd.key" \
    --log-level=warn
done
etcd_pids=$pids pids=

# serve N runs a server, again whenever it ends. If it fails within 10 s five times in a row,
# all ends.
serve() {
  failures=0
  trap 'kill "$child" 2>/dev/null; wait "$child"; exit' TERM
  while :; do
    serve_once "$1" >>"$dir/server-$1.log" 2>&1 &
    child=$!
    echo $child >"$dir/server-$1.pid"
    began=$(date +%s) code=0
    wait "$child" || code=$?
    failures=$((failures + 1))
    if [ $code -eq 0 ] || [ $(($(date +%s) - began)) -ge 10 ]; then failures=0; fi
    if [ $failures -ge 5 ]; then
      echo "server $1 failed at once, $failures times in a row: see the end of $dir/server-$1.log" >&2
      kill -USR1 $$
      exit 1
    fi
    sleep 1
  done
}
serve_once() {
  exec "$millrace" serve --bind-address=127.0.0.1 --secure-port=$((port + $1)) --rebalance-watches=10 \
    --endpoint-reconciler-type=none --advertise-address=127.0.0.1 \
    --etcd-servers="${endpoints#,}" --etcd-cafile="$pki/etcd-ca.crt" --etcd-certfile="$pki/etcd.crt" --etcd-keyfile="$pki/etcd.key" \
    --client-ca-file="$pki/ca.crt" --tls-cert-file="$pki/server.crt" --tls-private-key-file="$pki/server.key" \
    --proxy-client-cert-file="$pki/front-proxy.crt" --proxy-client-key-file="$pki/front-proxy.key" \
    --requestheader-client-ca-file="$pki/front-proxy-ca.crt" --requestheader-allowed-names=front-proxy \
    --requestheader-extra-headers-prefix=X-Remote-Extra- --requestheader-group-headers=X-Remote-Group --requestheader-username-headers=X-Remote-User \
    --service-account-issuer=https://kubernetes.default.svc.cluster.local \
    --service-account-key-file="$pki/service-account.pub" --service-account-signing-key-file="$pki/service-account.key" \
    --service-cluster-ip-range=10.96.0.0/12 --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction \
    --enable-bootstrap-token-auth --allow-privileged --shutdown-delay-duration=10s \
    --feature-gates=APIServerIdentity=false,UnknownVersionInteroperabilityProxy=false # their identity is the host's name
}
for n in 1 2 3; do
  serve $n &
  pids="$! $pids"
done

# The configuration is that of the manifests, with this machine's addresses.
sed -e "s/bind :6443/bind 127.0.0.1:$port/" -e "s/bind :8404/bind 127.0.0.1:$((port + 11))/" \
  -e 's/ resolvers dns init-addr none//' -e '/^resolvers/,/^$/d' -e '/prometheus-exporter/d' -e 's/maxconn 20000/maxconn 2000/' \
  -e "s/server-0\.server\.[a-z.-]*:6443/127.0.0.1:$((port + 1))/" \
  -e "s/server-1\.server\.[a-z.-]*:6443/127.0.0.1:$((port + 2))/" \
  -e "s/server-2\.server\.[a-z.-]*:6443/127.0.0.1:$((port + 3))/" "$here/haproxy.cfg" >"$dir/haproxy.cfg"
run haproxy "$haproxy" -db -f "$dir/haproxy.cfg"

cat >"$dir/admin.kubeconfig" <<END
apiVersion: v1
kind: Config
clusters:
- {name: local, cluster: {server: "https://127.0.0.1:$port", certificate-authority: "$pki/ca.crt"}}
users:
- {name: admin, user: {client-certificate: "$pki/admin.crt", client-key: "$pki/admin.key"}}
contexts:
- {name: local, context: {cluster: local, user: admin}}
current-context: local
END

tries=0
until "$millrace" kubectl --kubeconfig="$dir/admin.kubeconfig" get --raw /readyz >/dev/null 2>&1; do
  tries=$((tries + 1))
  [ $tries -lt 120 ] || { echo "no server became ready: see $dir/*.log" >&2; exit 1; }
  sleep 1
done
echo "ready: KUBECONFIG=$dir/admin.kubeconfig"
echo "restart a server:  kill \$(cat $dir/server-1.pid)   # it is started again"
wait
