#!/usr/bin/env bash
# Makes tls/: a root of one's own, as companies have, and what it vouches for, a server on this machine. The keys guard nothing.
set -euo pipefail
cd "$(dirname "$0")/tls"
curve="ec -pkeyopt ec_paramgen_curve:P-256"
openssl req -x509 -newkey $curve -nodes -days 36500 -subj "/CN=tests of tx" -keyout ca.key -out ca.pem \
  -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign"
openssl req -newkey $curve -nodes -subj "/CN=127.0.0.1" -keyout server.key -out server.csr
openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -days 36500 -out server.pem -extfile <(
  printf 'basicConstraints=CA:FALSE\nkeyUsage=digitalSignature\nextendedKeyUsage=serverAuth\nsubjectAltName=IP:127.0.0.1\n')
rm ca.key server.csr
