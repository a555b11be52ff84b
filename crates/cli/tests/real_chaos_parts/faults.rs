//! What goes wrong on the way between a replica and the API servers, packet by packet.

use crate::place::must;

/// What is lost of a replica's packets, in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Half of all.
    Half,
    /// All to and from an address.
    Of(&'static str),
    /// All.
    All,
    /// None, but all go slowly.
    Slow,
}

/// Three classes on each end of a replica's link: what passes, what is lost, what is slow.
pub fn prepare_link(replica: usize) {
    for (prefix, device) in ends(replica) {
        must(&format!(
            "{prefix}tc qdisc add dev {device} root handle 1: htb default 10
             {prefix}tc class add dev {device} parent 1: classid 1:10 htb rate 1gbit quantum 100000
             {prefix}tc class add dev {device} parent 1: classid 1:20 htb rate 1gbit quantum 100000
             {prefix}tc class add dev {device} parent 1: classid 1:30 htb rate 60kbit
             {prefix}tc qdisc add dev {device} parent 1:20 bfifo limit 1
             {prefix}tc qdisc add dev {device} parent 1:30 bfifo limit 60000"
        ));
    }
}

/// The ends of a link: what a command begins with there, and the device.
fn ends(replica: usize) -> [(String, String); 2] {
    [
        (String::new(), format!("v{replica}")),
        (format!("ip netns exec r{replica} "), "eth0".to_owned()),
    ]
}

/// Loses packets until [`heal`].
pub fn lose(replica: usize, loss: Loss) {
    for (prefix, device) in ends(replica) {
        for program in programs(loss) {
            must(&format!(
                "{prefix}tc filter add dev {device} parent 1: bpf bytecode '{program}'"
            ));
        }
    }
}

/// No packets are lost any more.
pub fn heal(replica: usize) {
    for (prefix, device) in ends(replica) {
        must(&format!(
            "{prefix}tc filter del dev {device} parent 1: || true"
        ));
    }
}

/// Classic BPF, as there need not be a netem in the kernel: each names the class of a packet.
fn programs(loss: Loss) -> Vec<String> {
    const LOST: u32 = 0x10020;
    const SLOW: u32 = 0x10030;
    match loss {
        // The lowest bit of a random number.
        Loss::Half => vec![format!("4,32 0 0 4294963256,69 0 1 1,6 0 0 {LOST},6 0 0 0")],
        Loss::All => vec![format!("1,6 0 0 {LOST}")],
        Loss::Slow => vec![format!("1,6 0 0 {SLOW}")],
        // The source, then the destination, of an IPv4 packet behind its Ethernet head.
        Loss::Of(address) => {
            let number = u32::from(address.parse::<std::net::Ipv4Addr>().unwrap());
            let field = |at: u32| format!("4,32 0 0 {at},21 0 1 {number},6 0 0 {LOST},6 0 0 0");
            vec![field(26), field(30)]
        }
    }
}
