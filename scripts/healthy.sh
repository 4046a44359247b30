# Exits with 0 if the app of this container answers /readyz on its side port. A shell asks, because a Node process for
# each probe costs fifty times as much; TLS it cannot speak, so with a certificate Node asks after all.
if [[ -n ${TLS_CERT_FILE:-} ]]; then exec node scripts/healthy.mjs; fi
given=${OPS_PORT:-9080}
host=127.0.0.1
[[ $given == *:* ]] && host=${given%:*}
[[ $host == 0.0.0.0 || $host == "[::]" ]] && host=127.0.0.1
host=${host#[}
exec 3<>"/dev/tcp/${host%]}/${given##*:}" || exit 1
printf 'GET /readyz HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n' >&3
read -r -t 3 line <&3
[[ $line == *" 200 "* ]]
