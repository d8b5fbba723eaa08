#!/bin/sh
# Makes the keys and certificates of the servers, of etcd and of an administrator.
#
#   certificates.sh DIRECTORY NAME...
#
# Clients reach the servers by the names: DNS:api.example or IP:192.0.2.1. Files that exist
# are left alone, so the script may run again.
set -eu
dir=${1:?directory}
shift
mkdir -p "$dir"
chmod 700 "$dir"
cd "$dir"
umask 077

authority() { # FILE NAME
  [ -f "$1.crt" ] || openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 \
    -subj "/CN=$2" -keyout "$1.key" -out "$1.crt" 2>/dev/null
}

certificate() { # FILE AUTHORITY SUBJECT USE NAMES
  [ ! -f "$1.crt" ] || return 0
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "$3" -keyout "$1.key" -out "$1.csr" 2>/dev/null
  { echo "keyUsage=critical,digitalSignature"; echo "extendedKeyUsage=$4"; [ -z "$5" ] || echo "subjectAltName=$5"; } >"$1.ext"
  openssl x509 -req -in "$1.csr" -CA "$2.crt" -CAkey "$2.key" -CAcreateserial -days 365 -extfile "$1.ext" -out "$1.crt" 2>/dev/null
  rm "$1.csr" "$1.ext"
}

names=DNS:localhost,IP:127.0.0.1,IP:10.96.0.1,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc
for name; do names=$names,$name; done

authority ca millrace-ca
authority front-proxy-ca front-proxy-ca
authority etcd-ca etcd-ca
certificate server ca /CN=kube-apiserver serverAuth "$names"
certificate front-proxy front-proxy-ca /CN=front-proxy clientAuth ""
certificate admin ca /O=system:masters/CN=kubernetes-admin clientAuth ""
certificate etcd etcd-ca /CN=etcd serverAuth,clientAuth "DNS:localhost,IP:127.0.0.1,DNS:*.etcd.millrace-ha.svc,DNS:*.etcd.millrace-ha.svc.cluster.local"
if [ ! -f service-account.key ]; then
  openssl genrsa -out service-account.key 2048 2>/dev/null
  openssl rsa -in service-account.key -pubout -out service-account.pub 2>/dev/null
fi
