//! Two real API servers on one etcd, and network namespaces for replicas that reach them by an address that stands for
//! the ClusterIP.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use everflow_corpus::real;
use everflow_env::{Env, RealDisk};
use everflow_runtime::client::Client;
use everflow_runtime::transport::{ClusterConfig, Endpoint, HttpsTransport};

use crate::proxy::Proxy;

/// The address that stands for the ClusterIP of the API servers.
pub const CLUSTER_IP: &str = "10.96.0.1";
/// This machine, as replicas see it.
pub const HOST: &str = "10.213.0.1";
/// The API servers' own addresses.
pub const SERVERS: [&str; 2] = ["10.213.0.11", "10.213.0.12"];
const ADMIN: &str = "admin-token";

/// Whether the test is wanted and can be run: it needs root, for namespaces. The first call starts the test anew in
/// namespaces of its own, which take all that it starts with them when it ends; it returns `false` then.
pub fn is_inside(test: &str) -> bool {
    if std::env::var_os("EVERFLOW_CHAOS_INSIDE").is_some() {
        must("mkdir -p /run/netns && mount -t tmpfs none /run/netns && ip link set lo up");
        return true;
    }
    if !real::wanted(test) {
        return false;
    }
    let can = "unshare --net --mount --pid --fork ip link set lo up";
    if !run(can).status.success() {
        println!("skipped: {test} needs root, unshare and ip, for network namespaces");
        return false;
    }
    let status = Command::new("unshare")
        .args(["--net", "--mount", "--propagation", "private"])
        .args(["--pid", "--fork", "--kill-child", "--mount-proc"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env("EVERFLOW_CHAOS_INSIDE", "1")
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
    false
}

/// Runs a line of shell.
pub fn run(line: &str) -> Output {
    Command::new("sh").args(["-c", line]).output().unwrap()
}

/// The same, which must succeed.
pub fn must(line: &str) {
    let output = run(line);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {said}");
}

/// Sends a signal to a process.
pub fn signal(child: &Child, name: &str) {
    let _ = run(&format!("kill -{name} {}", child.id()));
}

/// A process that is killed when it is dropped.
#[derive(Debug)]
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The API servers and the network.
pub struct Place {
    pub directory: PathBuf,
    pub proxy: Proxy,
    pub replicas: usize,
    servers: [Option<Process>; 2],
    _etcd: Process,
    _kept: tempfile::TempDir,
}

impl Place {
    /// Starts everything, with namespaces for so many replicas.
    pub async fn start(replicas: usize) -> Self {
        Place::start_with(replicas, AUDIT_POLICY).await
    }

    /// The same with another policy of the audit logs.
    pub async fn start_with(replicas: usize, policy: &str) -> Self {
        let kept = tempfile::tempdir().unwrap();
        let directory = match std::env::var_os("EVERFLOW_CHAOS_DIRECTORY") {
            Some(given) => PathBuf::from(given),
            None => kept.path().to_owned(),
        };
        std::fs::create_dir_all(&directory).unwrap();
        network(replicas);
        certificates(&directory);
        let etcd = etcd(&directory);
        let proxy = Proxy::start(&format!("{CLUSTER_IP}:443")).await;
        let mut place = Place {
            directory,
            proxy,
            replicas,
            servers: [None, None],
            _etcd: etcd,
            _kept: kept,
        };
        place.write_credentials();
        std::fs::write(place.directory.join("audit.yaml"), policy).unwrap();
        for number in 0..2 {
            place.start_server(number);
        }
        for number in 0..2 {
            place.until_ready(number);
        }
        place
    }

    /// Starts an API server that does not run.
    pub fn start_server(&mut self, number: usize) {
        let address = SERVERS[number];
        let directory = self.directory.display();
        let log = std::fs::File::create(self.directory.join(format!("apiserver-{number}.log")));
        let mut command = Command::new(real::program("kube-apiserver").unwrap());
        for flag in [
            "--etcd-servers=http://127.0.0.1:2379".to_owned(),
            format!("--bind-address={address}"),
            format!("--advertise-address={address}"),
            "--secure-port=6443".to_owned(),
            format!("--cert-dir={directory}/certs-{number}"),
            format!("--tls-cert-file={directory}/server.crt"),
            format!("--tls-private-key-file={directory}/server.key"),
            format!("--token-auth-file={directory}/tokens.csv"),
            format!("--service-account-key-file={directory}/sa.key"),
            format!("--service-account-signing-key-file={directory}/sa.key"),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            format!("--audit-policy-file={directory}/audit.yaml"),
            format!("--audit-log-path={directory}/audit-{number}.log"),
            "--audit-log-format=json".to_owned(),
            "--audit-log-maxsize=100000".to_owned(),
        ] {
            command.arg(flag);
        }
        let child = command
            .stdout(Stdio::null())
            .stderr(log.unwrap())
            .spawn()
            .unwrap();
        self.servers[number] = Some(Process(child));
        self.proxy.set_server(number, true);
    }

    /// Waits until an API server is ready.
    pub fn until_ready(&self, number: usize) {
        let line = format!(
            "curl -fsk --max-time 2 -H 'Authorization: Bearer {ADMIN}' https://{}:6443/readyz",
            SERVERS[number]
        );
        for _ in 0..600 {
            if run(&line).status.success() {
                return;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        panic!("API server {number} is not ready after two minutes");
    }

    /// Kills an API server.
    pub fn kill_server(&mut self, number: usize) {
        self.servers[number] = None;
        self.proxy.set_server(number, false);
    }

    /// Sends a signal to an API server.
    pub fn signal_server(&self, number: usize, name: &str) {
        if let Some(server) = &self.servers[number] {
            signal(&server.0, name);
        }
    }

    fn write_credentials(&self) {
        let mut tokens = format!("{ADMIN},admin,admin,\"system:masters\"\n");
        for number in 0..self.replicas {
            tokens += &format!(
                "engine-{number}-token,engine-{number},engine-{number},\"system:masters\"\n"
            );
            let server = format!("https://{CLUSTER_IP}:443");
            self.write_kubeconfig(
                &format!("kubeconfig-{number}"),
                &server,
                &format!("engine-{number}-token"),
            );
        }
        std::fs::write(self.directory.join("tokens.csv"), tokens).unwrap();
        self.write_kubeconfig("kubeconfig", &format!("https://{}:6443", SERVERS[0]), ADMIN);
    }

    fn write_kubeconfig(&self, name: &str, server: &str, token: &str) {
        let authority = self.directory.join("ca.crt");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: real\n\
             clusters: [{{name: real, cluster: {{server: '{server}', certificate-authority: '{}'}}}}]\n\
             users: [{{name: user, user: {{token: {token}}}}}]\n\
             contexts: [{{name: real, context: {{cluster: real, user: user}}}}]\n",
            authority.display()
        );
        std::fs::write(self.directory.join(name), text).unwrap();
    }

    /// A client of this machine, which knows both servers.
    pub fn client(&self) -> Client {
        let env = Env::system(RealDisk::new(&self.directory).unwrap());
        let kubeconfig = self.directory.join("kubeconfig");
        let config = ClusterConfig::from_file(&kubeconfig, None).unwrap();
        let other = Endpoint::parse(&format!("https://{}:6443", SERVERS[1])).unwrap();
        let transport = HttpsTransport::with_ways(&env, config, &[other], None).unwrap();
        Client::new(Arc::new(transport), env.clock.clone())
    }

    /// The audit logs of the servers.
    pub fn audit_logs(&self) -> Vec<PathBuf> {
        let log = |number| self.directory.join(format!("audit-{number}.log"));
        (0..2).map(log).collect()
    }
}

fn etcd(directory: &Path) -> Process {
    let log = std::fs::File::create(directory.join("etcd.log")).unwrap();
    let child = Command::new(real::program("etcd").unwrap())
        .arg("--data-dir")
        .arg(directory.join("etcd"))
        .args(["--unsafe-no-fsync", "--log-level", "warn"])
        .args(["--listen-client-urls", "http://127.0.0.1:2379"])
        .args(["--advertise-client-urls", "http://127.0.0.1:2379"])
        .args(["--listen-peer-urls", "http://127.0.0.1:2380"])
        .args(["--initial-advertise-peer-urls", "http://127.0.0.1:2380"])
        .args(["--initial-cluster", "default=http://127.0.0.1:2380"])
        .stdout(Stdio::null())
        .stderr(log)
        .spawn();
    Process(child.unwrap())
}

/// A bridge with the addresses of the servers, and a namespace for each replica on it.
fn network(replicas: usize) {
    must("ip link add evf0 type bridge && ip link set evf0 up");
    for address in [HOST, SERVERS[0], SERVERS[1]] {
        must(&format!("ip addr add {address}/24 dev evf0"));
    }
    must(&format!("ip addr add {CLUSTER_IP}/32 dev evf0"));
    for number in 0..replicas {
        let address = address_of(number);
        must(&format!(
            "ip netns add r{number}
             ip link add v{number} type veth peer name eth0 netns r{number}
             ip link set v{number} master evf0 up
             ip -n r{number} link set lo up
             ip -n r{number} addr add {address}/24 dev eth0
             ip -n r{number} link set eth0 up
             ip -n r{number} route add default via {HOST}"
        ));
        crate::faults::prepare_link(number);
    }
}

/// The address of a replica.
pub fn address_of(replica: usize) -> String {
    format!("10.213.0.{}", 100 + replica)
}

fn certificates(directory: &Path) {
    let names = format!(
        "DNS:kubernetes,DNS:kubernetes.default.svc,IP:{CLUSTER_IP},IP:{},IP:{}",
        SERVERS[0], SERVERS[1]
    );
    must(&format!(
        "cd '{}' && openssl genrsa -out sa.key 2048 2>/dev/null
         openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 3 -subj /CN=kubernetes 2>/dev/null
         openssl req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=kube-apiserver 2>/dev/null
         printf 'subjectAltName={names}\\n' >names
         openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 3 -extfile names -out server.crt 2>/dev/null",
        directory.display()
    ));
}

const AUDIT_POLICY: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, verbs: [get, list, watch]}
- {level: None, users: ['system:apiserver']}
- level: RequestResponse
  omitManagedFields: true
  resources:
  - {group: coordination.k8s.io, resources: [leases]}
  - {group: '', resources: [configmaps, secrets]}
  - {group: batch, resources: [jobs]}
  - {group: kustomize.toolkit.fluxcd.io, resources: [kustomizations/status]}
  - {group: helm.toolkit.fluxcd.io, resources: [helmreleases/status]}
- {level: None, resources: [{group: '', resources: [events]}, {group: events.k8s.io, resources: [events]}]}
- {level: Metadata}
";

/// Every request is logged, without its content.
pub const AUDIT_ALL: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
";
