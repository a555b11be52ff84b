//! Where what was fetched is kept between runs.

use std::path::PathBuf;
use std::sync::Arc;

use everflow_env::RealDisk;
use everflow_env::disk::private;
use everflow_local::cache::SourceCache;

use crate::exit::Failure;

/// Where what was fetched is kept.
#[derive(clap::Args, Debug, Clone)]
pub struct CacheFlags {
    /// Where fetched charts, indexes and artifacts are kept between runs; by default
    /// $XDG_CACHE_HOME/everflow or ~/.cache/everflow
    #[arg(long, value_name = "DIR", env = "EVERFLOW_CACHE")]
    cache_dir: Option<PathBuf>,
    /// Neither read nor write the cache
    #[arg(long, conflicts_with = "cache_dir")]
    no_cache: bool,
}

impl CacheFlags {
    /// The flags as they were given.
    pub fn words(&self) -> String {
        match (&self.cache_dir, self.no_cache) {
            (Some(directory), _) => format!(" --cache-dir {}", directory.display()),
            (None, true) => " --no-cache".to_owned(),
            (None, false) => String::new(),
        }
    }

    /// The cache; none where nothing is to be kept, or nobody says where.
    pub fn open(&self) -> Result<Option<SourceCache>, Failure> {
        let Some(directory) = self.directory() else {
            return Ok(None);
        };
        let shown = directory.display().to_string();
        let refused = |error: std::io::Error| match self.cache_dir {
            Some(_) => Err(Failure::Usage(format!("--cache-dir {shown}: {error}"))),
            // Nobody asked for it.
            None => Ok(None),
        };
        if let Err(error) = private::create_dir(&directory) {
            return refused(error);
        }
        match RealDisk::new(&directory) {
            Ok(disk) => Ok(Some(SourceCache::new(
                Arc::new(disk),
                format!("the cache {shown}"),
            ))),
            Err(error) => refused(error),
        }
    }

    fn directory(&self) -> Option<PathBuf> {
        if self.no_cache {
            return None;
        }
        let of_variable = |name: &str| {
            let value = std::env::var_os(name)?;
            Some(PathBuf::from(value)).filter(|path| path.is_absolute())
        };
        self.cache_dir.clone().or_else(|| {
            let base = of_variable("XDG_CACHE_HOME");
            let base = base.or_else(|| Some(of_variable("HOME")?.join(".cache")));
            Some(base?.join("everflow"))
        })
    }
}
