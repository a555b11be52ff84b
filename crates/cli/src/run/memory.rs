//! One heap for all threads.

/// Sees to it that all threads share one heap. glibc gives each thread one of its own and returns
/// little of what is free in them: with a thousand sources that is more than everything else takes.
/// It can be told otherwise only before a program starts, so the program starts once more, in the
/// same process. Where that does not work out it goes on as it is.
pub(super) fn share_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        use std::os::unix::process::CommandExt as _;
        const ARENAS: &str = "MALLOC_ARENA_MAX";
        if std::env::var_os(ARENAS).is_some() {
            return;
        }
        let mut arguments = std::env::args_os();
        let (Ok(own), Some(name)) = (std::env::current_exe(), arguments.next()) else {
            return;
        };
        let mut command = std::process::Command::new(own);
        // It comes back only when it failed.
        let _ = command.arg0(name).args(arguments).env(ARENAS, "1").exec();
    }
}
