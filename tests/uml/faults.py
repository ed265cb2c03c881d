"""Faults that are put into the modules, to see that the fuzzer or the self-tests find them."""

from dataclasses import dataclass
from pathlib import Path

from rig.errors import RigError


@dataclass(frozen=True)
class Fault:
    """A fault that is put into a file of kernel/: `old` is replaced by `new`.

    `test` is the self-test that must find it, or a test of inside; nothing where the fuzzer must.
    """

    name: str
    file: str
    old: str
    new: str
    test: str = ""


def put(fault: Fault, kernel: Path) -> None:
    """Put a fault into a copy of kernel/."""
    path = kernel / fault.file
    text = path.read_text()
    if text.count(fault.old) != 1:
        raise RigError(f"{fault.file} has not one `{fault.old}`: mend tests/uml/faults.py")
    path.write_text(text.replace(fault.old, fault.new))


# They harm memory or locks, or have something in the kernel end never: it sees nothing else.
FUZZED = [
    Fault("a frame's length without a bound", "net/rx.c", "rec->len <= MM_LEN_MAX && ", ""),
    Fault(
        "a frame's header is read twice",
        "net/rx.c",
        " cons, &rec, list);",
        " cons, xway_ring_at(ring.pages, cons, ring.size, &(u32){ sizeof(rec) }), list);",
    ),
    Fault("pages in use are unmapped", "core/import.c", "if (m->users)", "if (0)"),
    Fault(
        "a post for a channel that has ended", "core/doorbell.c", "chan && !xa_is_value(chan) &&", "chan &&"
    ),
    Fault("a request without an address", "core/netlink.c", "if (!a || !p) {", "if (!p) {"),
    Fault(
        "a ring is read after it was unmapped",
        "tcp/rx.c",
        "xway_rx_avail(conn);\n\trx_copy_out(conn);",
        "xway_rx_avail(conn);",
    ),
    Fault("more addresses than there is room for", "core/value.c", "strlen(value) / 3", "strlen(value) / 30"),
]

# What doc/security.md promises and names a self-test for, each without the code that keeps it.
TESTED = [
    Fault(
        "more posts than there are slots",
        "core/doorbell.c",
        "if (prod - bell->cons > XWAY_DOORBELL_SLOTS)",
        "if (0)",
        "bell_lies",
    ),
    Fault(
        "a doorbell never rests",
        "core/doorbell.c",
        "return bell->idle >= IDLE_MAX;",
        "return false;",
        "bell_without_end",
    ),
    Fault(
        "an event for nothing is worth one",
        "core/doorbell.c",
        "link->tp->seen(link, !bell->news);",
        "link->tp->seen(link, false);",
        "bell_idle",
    ),
    Fault(
        "channels are looked at for each overflow",
        "core/doorbell.c",
        "if (bell->scanned && time_after_eq(bell->scanned_at, jiffies))",
        "if (0)",
        "bell_overflows",
    ),
    Fault(
        "words outside of their page",
        "core/chan.c",
        "msg->words_slot < XWAY_CHANS_PER_PAGE &&",
        "",
        "chan_lies",
    ),
    Fault("a ring of any size", "core/chan.c", "is_power_of_2(msg->ring_pages) &&", "", "chan_lies"),
    Fault(
        "a message that is not due",
        "core/chan.c",
        "next = expects_after(chan->expects, msg->type);\n\tif (next < 0)",
        "next = max(expects_after(chan->expects, msg->type), 0);\n\tif (next < 0)",
        "chan_expects",
    ),
    Fault(
        "the channel of another service",
        "core/chan.c",
        "if (msg->service && msg->service != chan->client->service)",
        "if (0)",
        "service_of_channel",
    ),
    Fault(
        "the channel of another link",
        "core/chan.c",
        "xa_load(&link->chans, msg->chan);\n\tint next;",
        "xa_load(&list_first_entry(&xway_links, struct link, node)->chans, msg->chan);\n\tint next;",
        "chan_of_another_link",
    ),
    Fault(
        "a peer is charged without a limit",
        "core/peer.c",
        "if (old > most || pages >",
        "if (pages >",
        "peer_charge",
    ),
    Fault(
        "all peers are charged without a limit",
        "core/peer.c",
        "xway_peer_part(xway_charged_max, atomic_read(&peer->charged))",
        "INT_MAX",
        "peer_charge_all",
    ),
    Fault(
        "nothing is left for who has little",
        "core/peer.c",
        "return held > max(all / 128, 32u) ? all - all / 8 : all;",
        "return all;",
        "arena_most",
    ),
    Fault("answers of one peer without end", "core/ctl.c", "queued < QUEUE_MAX && ", "", "ctl_both_full"),
    Fault(
        "answers of all peers without end",
        "core/ctl.c",
        "xway_peer_part(xway_ctl_queued_max, queued)",
        "INT_MAX",
        "ctl_all_full",
    ),
    Fault(
        "more messages than there are slots",
        "core/ctl.c",
        "if (prod - link->ctl.cons > XWAY_CTLS)",
        "if (0)",
        "ctl_index_lies",
    ),
    Fault(
        "pages outside of the arena are unmapped",
        "core/import.c",
        "pages > XWAY_ARENA_PAGES_MAX - first)",
        "0)",
        "import_unmaps",
    ),
    Fault(
        "UNMAPPED that nobody asked for",
        "core/reclaim.c",
        "if (!link->arena.n_withdrawn)\n\t\treturn false;",
        "",
        "ctl_unknown",
    ),
    Fault(
        "a kernel that does nothing seems to run", "core/heartbeat.c", "sign == h->sign)", "0)", "heart_beats"
    ),
    Fault(
        "an answer may be owed for ever",
        "core/answer.c",
        "if (xway_chan_mark_late(link)) {",
        "if (0) {",
        "answer_late",
    ),
    Fault(
        "an offer with something behind it",
        "core/value.c",
        "!text[used] && version",
        "version",
        "value_offer",
    ),
    Fault(
        "pages are shared as they are",
        "core/arena.c",
        "GFP_KERNEL | __GFP_ZERO |",
        "GFP_KERNEL |",
        "arena_pages",
    ),
    Fault(
        "more bytes than the ring has",
        "tcp/rx.c",
        "if (!xway_ring_unread(prod, rx->cons, rx->size, &n) ||\n\t    n <",
        "if (xway_ring_unread(prod, rx->cons, rx->size, &n), n <",
        "rx_prod_lies",
    ),
    Fault(
        "an index that goes back",
        "tcp/rx.c",
        " ||\n\t    n < rx->prod - rx->cons) {",
        ") {",
        "rx_prod_back",
    ),
    Fault(
        "switches that were not made",
        "tcp/rx.c",
        "if (gen - rx->gen > 2 || (s32)(gen - rx->seen) < 0)",
        "if (0)",
        "rx_gens_lie",
    ),
    Fault("a mark beyond the bytes", "tcp/rx.c", "if (end > n)", "if (0)", "rx_marks_lie"),
    Fault(
        "a reader that has read more than there is",
        "tcp/tx.c",
        "if (READ_ONCE(conn->tx.prod) == prod) {\n\t\t\txway_conn_bad(conn);",
        "if (READ_ONCE(conn->tx.prod) == prod) {",
        "tx_cons_lies",
    ),
    Fault(
        "OPEN without the proof",
        "tcp/conn.c",
        "if (proof && conn_mac(conn, link, false, conn->isn[1]) != mac)",
        "if (0)",
        "proof_differs",
    ),
    Fault(
        "ACCEPT without the proof",
        "tcp/handshake.c",
        "else if (xway_conn_mac(conn, true) != msg->mac ||\n\t\t !xway",
        "else if (!xway",
        "proof_reflected",
    ),
    Fault(
        "a proof for the other end",
        "tcp/conn.c",
        "proof = conn_mac(conn, link, false, conn->isn[0]) != mac;",
        "proof = conn_mac(conn, link, false, conn->isn[0]) != mac &&\n"
        "\t\t\tconn_mac(conn, link, true, conn->isn[0]) != mac;",
        "proof_differs",
    ),
    Fault("a frame shorter than its header", "net/rx.c", "rec->len >= ETH_HLEN && ", "", "lies_records"),
    Fault(
        "frames are written back",
        "net/rx.c",
        "(s32)(*prod - q->peer_prod) < 0",
        "0",
        "lies_indices",
    ),
    Fault(
        "more segments than Linux makes",
        "net/rx.c",
        "tcp ? size < MM_TCP_SEGMENT : skb->len - head > size * MM_UDP_SEGMENTS",
        "0",
        "lies_checksums",
    ),
    Fault(
        "a checksum anywhere",
        "net/rx.c",
        "return !skb_checksum_setup(skb, false) && (",
        "return skb_partial_csum_set(skb, __virtio16_to_cpu(true, hdr->csum_start),\n"
        "\t\t\t__virtio16_to_cpu(true, hdr->csum_offset)) && (",
        "lies_checksums",
    ),
    Fault("a queue that is not used", "net/port.c", " || index >= port->nr_queues", "", "queues_lies"),
    Fault(
        "channels begin as often as the peer likes",
        "net/port.c",
        "time_before(jiffies, due) ? due - jiffies : 0",
        "due - due",
        "lies_again",
    ),
    Fault(
        "packets wait for who does not read",
        "net/tx.c",
        "\t\tstall(q);\n",
        "\t\tlook_soon(q);\n",
        "frames_stalled",
    ),
    Fault(
        "connections do not wait for the next link",
        "tcp/attach.c",
        "renew = may_replace(conn, sk);",
        "renew = false;",
        "session_ends",
    ),
    Fault(
        "a direction is not cut as the link ends",
        "tcp/leave.c",
        "\tif (cut)\n\t\txway_rx_cut(conn);\n",
        "",
        "cut_after_link",
    ),
    Fault(
        "the owner of a socket does not look",
        "tcp/adopt.c",
        "\tlook_connected(conn, sk, true);\n",
        "",
        "owner_looks",
    ),
    Fault(
        "connections of other namespaces",
        "tcp/netlink.c",
        "netlink_capable(cb->skb, CAP_NET_ADMIN) && net_eq(net, &init_net) ? NULL : net",
        "NULL",
        "shown",
    ),
    Fault(
        "anybody may change what is for all",
        "core/genl.h",
        "if (netlink_capable(skb, CAP_NET_ADMIN))",
        "if (1)",
        "shown",
    ),
]
