#!/usr/bin/env bash
# shell.sh FOLDER: open p4runtime-shell, whose virtual environment FOLDER is, on a running switch.
# Variables choose which, and how:
#   ADDRESS (127.0.0.1:9559), DEVICE_ID (1), ELECTION_ID (0,1), ROLE,
#   P4INFO and JSON (a pipeline to push first), TLS_CA, TLS_CERT, TLS_KEY.
source "$(dirname "$0")/common.sh"

venv=$1
address=${ADDRESS:-127.0.0.1:9559}
sh=("$PWD/$venv/bin/python" -m p4runtime_sh --grpc-addr "$address" --device-id "${DEVICE_ID:-1}")
# A low id: the shell does not take a switch from the controller that has it.
sh+=(--election-id "${ELECTION_ID:-0,1}")
[ -z "${ROLE-}" ] || sh+=(--role-name "$ROLE")
attach=(.venv/bin/python -m mininet_topos.attach s1)

if [ -n "${P4INFO-}${JSON-}" ]; then
    [ -n "${P4INFO-}" ] && [ -n "${JSON-}" ] || fail "P4INFO and JSON go together; give both or neither"
    for file in "$P4INFO" "$JSON"; do
        [ -r "$file" ] || fail "cannot read $file"
    done
    sh+=(--config "$(realpath "$P4INFO"),$(realpath "$JSON")")
fi
if [ -n "${TLS_CA-}" ]; then
    for file in "$TLS_CA" ${TLS_CERT:+"$TLS_CERT" "${TLS_KEY:?goes with TLS_CERT}"}; do
        [ -r "$file" ] || fail "cannot read $file"
    done
    sh+=(--ssl --cacert "$(realpath "$TLS_CA")")
    if [ -n "${TLS_CERT-}" ]; then
        sh+=(--cert "$(realpath "$TLS_CERT")" --private-key "$(realpath "$TLS_KEY")")
    fi
fi

listens() {
    (exec 3<>"/dev/tcp/${address%:*}/${address##*:}") 2>/dev/null
}

# The switch of a run is inside its emulation, which only root may enter.
in_emulation() {
    [ -z "${ADDRESS-}" ] && pgrep --full 'mininet:s1' >/dev/null && can_be_root
}

enter=()
if listens; then
    :
elif in_emulation; then
    say "entering the emulation of a run"
    enter=(as_root "${attach[@]}")
else
    fail "no switch serves P4Runtime at $address. Start one in another terminal, for example" \
        "'make run' or '.venv/bin/softswitch run --json PROG.json --p4info PROG.p4info.txtpb'," \
        "or name another: make shell ADDRESS=HOST:PORT"
fi
"$(dirname "$0")/shell_venv.sh" "$venv"
"${enter[@]}" "${sh[@]}" ||
    fail "p4runtime-shell ended with an error, see above (device id ${DEVICE_ID:-1}, election id" \
        "${ELECTION_ID:-0,1}; TLS needs TLS_CA)"
