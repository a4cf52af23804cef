//! The scripted Indy nodes of `testkit`, used by the published indy-vdr: that it works shows that the nodes are true, so that what
//! carom's own client does with them means something.

use carom_live::process::Folder;
use carom_live::python;
use testkit::indy::Pool;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_is_opened_caught_up_with_read_and_written() {
    let pool = Pool::start(4).await.unwrap();
    pool.grow(7);
    let folder = Folder::new("genesis", None);
    let genesis = folder.write("genesis", &pool.genesis());
    print!("{}", python::run("indy_vdr_pool.py", &[genesis.to_str().unwrap(), "11"]).await);
    pool.until(|pool| pool.all_sockets() == 0).await;
    for node in 0..4 {
        let asked = pool.heard(node).iter().filter(|asked| asked["op"] == "LEDGER_STATUS").count();
        println!("node {node}: {} sockets, {} identities", pool.accepted(node), pool.identities(node).len());
        assert!(asked > 0 && !pool.identities(node).is_empty());
    }
}
