"""What a user does in p4runtime-shell; run by the Python of its own virtual environment.

Arguments: address, P4Info, JSON, then optionally CA, certificate and key for TLS. Prints what was
seen as JSON, on the last line.
"""

import json
import os
import sys
import traceback

import p4runtime_sh.shell as sh
from p4runtime_sh.p4runtime import P4RuntimeWriteException, SSLOptions

FRAME = bytes.fromhex("0000000000aa 0000000000bb 9999") + b"payload"
PACKET_S = 5.0


def tables() -> dict:
    """Insert, read, modify and delete entries of several match kinds; read a counter."""
    entry = sh.TableEntry("SwitchIngress.l2")(action="SwitchIngress.forward")
    entry.match["dst"] = "00:00:00:00:00:aa"
    entry.action["port"] = "3"
    entry.insert()
    entry.action["port"] = "4"
    entry.modify()
    route = sh.TableEntry("SwitchIngress.routes")(action="SwitchIngress.route")
    route.match["dst"] = "10.0.0.0/8"
    route.action["mac"] = "00:00:00:00:00:0a"
    route.action["port"] = "3"
    route.insert()
    acl = sh.TableEntry("SwitchIngress.acl")(action="SwitchIngress.set_class")
    acl.match["ingress_port"] = "1"
    acl.match["src"] = "0x0a&&&0xff"
    acl.match["type"] = "0x800..0x8ff"
    acl.priority = 5
    acl.action["class"] = "7"
    acl.insert()
    found = [
        (item.msg().match[0].exact.value.hex(), item.msg().action.action.params[0].value.hex())
        for item in sh.TableEntry("SwitchIngress.l2").read()
    ]
    routes = len(list(sh.TableEntry("SwitchIngress.routes").read()))
    acls = len(list(sh.TableEntry("SwitchIngress.acl").read()))
    route.delete()
    left = len(list(sh.TableEntry("SwitchIngress.routes").read()))
    return {"l2": found, "routes": routes, "acl": acls, "left": left}


def counters() -> dict:
    """Write and read counters, one cell and all."""
    cell = sh.CounterEntry("SwitchIngress.port_counter")
    cell.index = 2
    cell.packet_count = 9
    cell.byte_count = 99
    cell.modify()
    counted = sh.CounterEntry("SwitchIngress.port_counter")
    counts = [item.packet_count for item in counted.read()]
    direct = sh.DirectCounterEntry("SwitchIngress.l2_counter")
    return {"cells": len(counts), "cell": counts[2], "direct": len(list(direct.read()))}


def replication() -> dict:
    """Make a multicast group and a clone session."""
    group = sh.MulticastGroupEntry(1)
    group.add(1).add(2, 5)
    group.insert()
    session = sh.CloneSessionEntry(7)
    session.add(3)
    session.insert()
    groups = [len(item.replicas) for item in sh.MulticastGroupEntry().read()]
    sessions = [item.session_id for item in sh.CloneSessionEntry().read()]
    return {"groups": groups, "sessions": sessions}


def packets() -> dict:
    """Send a packet to the CPU port and get it back."""
    packet_in = sh.PacketIn()
    packet = sh.PacketOut(FRAME, egress_port="255", padding="0")
    packet.send()
    message = packet_in.packet_in_queue.get(timeout=PACKET_S)
    return {"same": message.packet.payload == FRAME}


def errors() -> dict:
    """Have an entry refused."""
    entry = sh.TableEntry("SwitchIngress.l2")(action="SwitchIngress.forward")
    entry.match["dst"] = "00:00:00:00:00:aa"
    entry.action["port"] = "3"
    try:
        entry.insert()
    except P4RuntimeWriteException as error:
        return {"error": str(error)}
    return {}


def main() -> None:
    """Do all of it."""
    address, p4info, program, *tls = sys.argv[1:]
    options = SSLOptions(False, *tls) if tls else None
    config = sh.FwdPipeConfig(p4info, program)
    sh.setup(1, address, (0, 1), None, config, options)
    seen = {"version": sh.APIVersion()}
    for part in (tables, counters, replication, packets, errors):
        seen.update(part())
    sh.teardown()
    print(json.dumps(seen))


code = 1
try:
    main()
    code = 0
except BaseException:
    traceback.print_exc()
finally:
    # The shell's threads would keep the process alive.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
