//! The cache on disk: what is written is read, what is torn is used as far as it goes, what is somebody else's is refused.

use carom_indy::Genesis;
use carom_indy::ledger::msgpack::{pack, unpack};
use carom_indy::ledger::{Cache, CacheError, Ledger, Transaction};
use serde_json::json;
use std::fs;
use testkit::cases::{bytes, cases};
use testkit::temp_dir::TempDir;

fn ledger(pool: &str, size: usize) -> Ledger {
    let values = (0..size).map(|number| json!({"txn": {"type": "0", "pool": pool, "number": number, "of": 1.5}}));
    values.map(|value| Transaction::new(value).unwrap()).collect()
}

fn cache(folder: &TempDir, pool: &str) -> Cache {
    Cache::new(folder.join("cache"), ledger(pool, 4).head())
}

#[test]
fn what_is_written_is_read_and_a_longer_one_takes_its_place() {
    let folder = TempDir::new();
    let cache = cache(&folder, "a");
    assert!(cache.read().unwrap().is_none());
    cache.write(&ledger("a", 4)).unwrap();
    assert_eq!(cache.read().unwrap(), None, "it holds no more than the genesis");
    for (size, kept) in [(5, 5), (20, 20), (7, 20), (20, 20), (4, 20), (21, 21)] {
        cache.write(&ledger("a", size)).unwrap();
        assert_eq!(cache.read().unwrap(), Some(ledger("a", kept)));
    }
    let mut other = ledger("a", 6);
    other.append(Transaction::new(json!({"txn": "another"})).unwrap());
    cache.write(&other).unwrap();
    assert_eq!(cache.read().unwrap(), Some(other), "one that goes on differently takes its place, however short");
    assert_eq!(fs::read_dir(folder.join("cache")).unwrap().count(), 1, "nothing is left beside it");
}

#[cfg(unix)]
#[test]
fn nothing_is_written_through_a_link_and_what_a_killed_process_left_goes_some_day() {
    let folder = TempDir::new();
    let cache = cache(&folder, "a");
    fs::create_dir_all(folder.join("cache")).unwrap();
    let (diary, left) = (folder.join("cache").join("diary"), |name: &str| cache.path().with_extension(name));
    fs::write(&diary, "my diary").unwrap();
    for number in 0..100 {
        std::os::unix::fs::symlink(&diary, left(&format!("{}-{number}.new", std::process::id()))).unwrap();
    }
    let (old, young) = (left("0123456789abcdef.new"), left("fedcba9876543210.new"));
    for path in [&old, &young] {
        fs::write(path, "half of a led").unwrap();
    }
    let hours_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    fs::File::options().write(true).open(&old).unwrap().set_modified(hours_ago).unwrap();
    cache.write(&ledger("a", 5)).unwrap();
    assert_eq!(fs::read(&diary).unwrap(), b"my diary");
    assert!(!old.exists() && young.exists(), "the young one may be another process's, at work");
    assert_eq!(cache.read().unwrap(), Some(ledger("a", 5)));
}

#[test]
fn a_bomb_on_disk_takes_no_more_memory_than_a_few_times_its_bytes() {
    let folder = TempDir::new();
    let cache = cache(&folder, "a");
    cache.write(&ledger("a", 5)).unwrap();
    let good = fs::read(cache.path()).unwrap();
    let record = |packed: &[u8]| {
        let mark = carom_indy::ledger::merkle::leaf_hash(packed);
        [&(packed.len() as u32).to_le_bytes()[..], packed, &mark[..8]].concat()
    };
    // Lists of maps with one empty entry, and of numbers: three bytes are 670 in memory there, and here one is 32.
    let maps = [&[0xdd, 0, 2, 0, 0][..], &[0x81, 0xa0, 0xc0].repeat(0x20000)].concat();
    let numbers = [&[0xdd, 0, 2, 0, 0][..], &[0].repeat(0x20000)].concat();
    for (bomb, size) in [(maps, 5), (numbers, 13)] {
        fs::write(cache.path(), [&good[..], &record(&bomb).repeat(8)].concat()).unwrap();
        let mut read = None;
        let taken = allocation_counter::measure(|| read = cache.read().unwrap()).bytes_max;
        assert_eq!(read.unwrap().head().size, size);
        // The file, its ledger, and one transaction at a time.
        let most = 3 * 8 * bomb.len() + 64 * bomb.len() + (1 << 20);
        assert!(taken < most as u64, "{taken} bytes, and {most} is the limit");
    }
}

#[test]
fn a_file_cut_anywhere_is_used_as_far_as_it_goes() {
    let folder = TempDir::new();
    let cache = cache(&folder, "a");
    cache.write(&ledger("a", 9)).unwrap();
    let whole = fs::read(cache.path()).unwrap();
    for end in 0..whole.len() {
        fs::write(cache.path(), &whole[..end]).unwrap();
        match cache.read().unwrap() {
            None => {}
            Some(read) => {
                let size = read.head().size as usize;
                assert!((5..9).contains(&size), "{size} of a file cut at {end}");
                assert_eq!(read, ledger("a", size));
            }
        }
    }
    cache.write(&ledger("a", 9)).unwrap();
    assert_eq!(cache.read().unwrap(), Some(ledger("a", 9)), "a torn one is replaced");
}

#[test]
fn a_file_changed_anywhere_is_used_up_to_there_or_refused() {
    let folder = TempDir::new();
    let cache = cache(&folder, "a");
    cache.write(&ledger("a", 7)).unwrap();
    let whole = fs::read(cache.path()).unwrap();
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0x10;
        fs::write(cache.path(), &changed).unwrap();
        match cache.read() {
            Ok(None) | Err(CacheError::Foreign { .. } | CacheError::OtherPool { .. }) => {}
            Ok(Some(read)) => assert_eq!(read, ledger("a", read.head().size as usize)),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn the_cache_of_another_pool_is_refused() {
    let folder = TempDir::new();
    let (ours, theirs) = (cache(&folder, "a"), cache(&folder, "b"));
    theirs.write(&ledger("b", 6)).unwrap();
    fs::copy(theirs.path(), ours.path()).unwrap();
    let error = ours.read().unwrap_err();
    assert!(error.to_string().contains("is the cache of another pool: its genesis has the root"), "{error}");
    // The header says that it is ours, the transactions that it is not.
    ours.write(&ledger("b", 6)).unwrap();
    assert!(matches!(ours.read(), Err(CacheError::OtherPool { .. })));
}

#[test]
fn what_is_not_ours_is_neither_read_nor_written_over() {
    let folder = TempDir::new();
    let cache = cache(&folder, "a");
    fs::create_dir_all(folder.join("cache")).unwrap();
    fs::write(cache.path(), "my diary").unwrap();
    assert!(matches!(cache.read(), Err(CacheError::Foreign { .. })));
    assert!(matches!(cache.write(&ledger("a", 5)), Err(CacheError::Foreign { .. })));
    assert_eq!(fs::read(cache.path()).unwrap(), b"my diary");
    fs::remove_file(cache.path()).unwrap();
    fs::create_dir(cache.path()).unwrap();
    assert!(matches!(cache.read(), Err(CacheError::Foreign { .. })));
    assert!(matches!(cache.write(&ledger("a", 5)), Err(CacheError::Foreign { .. })));
    let nowhere = Cache::new("/dev/null/x", ledger("a", 4).head());
    assert!(nowhere.read().is_err() && matches!(nowhere.write(&ledger("a", 5)), Err(CacheError::Io { .. })));
}

#[test]
fn no_bytes_on_disk_make_it_panic() {
    let folder = TempDir::new();
    let cache = cache(&folder, "a");
    cache.write(&ledger("a", 5)).unwrap();
    let whole = fs::read(cache.path()).unwrap();
    for (_case, mut random) in cases(300) {
        // Behind a good beginning: records with sizes that fit, and what is no MessagePack in them, or a bomb.
        let mut file = whole.clone();
        let body = if random.chance(0.5) { vec![0x91; random.below(4000)] } else { bytes(&mut random, 200) };
        file.extend((body.len() as u32).to_le_bytes());
        file.extend(&body);
        file.extend(&carom_indy::ledger::merkle::leaf_hash(&body)[..8]);
        fs::write(cache.path(), &file).unwrap();
        let read = cache.read().unwrap().unwrap();
        assert!(read.head().size == 5 || unpack(&body).is_ok());
        if let Ok(value) = unpack(&body) {
            assert_eq!(unpack(&pack(&value).unwrap()), Ok(value));
        }
    }
}

#[test]
fn no_text_makes_reading_a_genesis_panic() {
    let line = r#"{"txn":{"data":{"data":{"alias":"Node1","client_ip":"10.0.0.1","client_port":9702,"services":["VALIDATOR"]},"dest":"Gw6pDLhcBcoQesN72qfotTgFa7cbuqZpkX3Xo6pLhPhv"},"type":"0"},"txnMetadata":{"seqNo":1},"ver":"1"}"#;
    let second = line.replace("\"seqNo\":1", "\"seqNo\":2");
    for (_case, mut random) in cases(2_000) {
        let mut text = format!("{line}\n{second}").into_bytes();
        for _ in 0..random.below(4) {
            let at = random.below(text.len());
            text[at] = random.bits() as u8;
        }
        let _ = Genesis::parse(&String::from_utf8_lossy(&text));
    }
}
