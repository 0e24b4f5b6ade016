//! Child processes: each has a time limit, reads no input, and is killed with all it started
//! when its time is over. Where several parts run at once, each line says whose it is.

use anyhow::{Context, Result, bail};
use std::cell::Cell;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// How often a long task says that it is still running.
const HEARTBEAT: Duration = Duration::from_secs(30);
/// How long output is still read after the child has ended: something it left behind may hold
/// the pipe open.
const DRAIN: Duration = Duration::from_secs(5);

/// `n` minutes.
pub const fn minutes(n: u64) -> Duration {
    Duration::from_secs(60 * n)
}

thread_local! {
    /// The part of the tests that this thread runs.
    static PART: Cell<&'static str> = const { Cell::new("") };
}

/// Does `work`, whose lines bear the name of `part`.
pub fn within<T>(part: &'static str, work: impl FnOnce() -> T) -> T {
    let before = PART.replace(part);
    let done = work();
    PART.set(before);
    done
}

/// Prints a line for people.
pub fn say(line: &str) {
    match PART.get() {
        "" => eprintln!("  {line}"),
        part => println!("{part:>8} | {line}"),
    }
}

/// A command to run, what to call it in messages, and the longest it may take.
pub struct Task {
    what: String,
    command: Command,
    limit: Duration,
}

impl Task {
    pub fn new(what: impl Into<String>, program: impl AsRef<OsStr>, limit: Duration) -> Self {
        let mut command = Command::new(program);
        command.stdin(Stdio::null());
        Self { what: what.into(), command, limit }
    }

    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(arguments);
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Replaces the longest time the command may take.
    pub fn limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    pub fn dir(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Runs with all output for people: standard output is for results.
    pub fn run(mut self) -> Result<()> {
        if PART.get().is_empty() {
            self.command.stdout(Stdio::from(std::io::stderr()));
            return self.finish(|_| {});
        }
        self.lines(say)
    }

    /// Runs and gives each line of standard output to `see`.
    pub fn lines(mut self, see: impl FnMut(&str)) -> Result<()> {
        self.command.stdout(Stdio::piped());
        // A terminal is left to the command, for its colours and progress.
        if !PART.get().is_empty() {
            self.command.stderr(Stdio::piped());
        }
        self.finish(see)
    }

    /// Runs and returns what it wrote to standard output.
    pub fn output(self) -> Result<String> {
        let mut text = String::new();
        self.lines(|line| {
            text.push_str(line);
            text.push('\n');
        })?;
        Ok(text)
    }

    /// True where the command can be started and succeeds; its output is thrown away.
    pub fn succeeds(mut self) -> bool {
        self.command.stdout(Stdio::null()).stderr(Stdio::null());
        self.finish(|_| {}).is_ok()
    }

    fn finish(mut self, mut see: impl FnMut(&str)) -> Result<()> {
        let mut child = self.command.spawn().with_context(|| {
            let program = self.command.get_program().to_string_lossy();
            format!("{}: cannot start {program}", self.what)
        })?;
        let (sender, lines) = mpsc::channel();
        if let Some(output) = child.stdout.take() {
            read_lines(output, Line::Output, sender.clone());
        }
        if let Some(errors) = child.stderr.take() {
            read_lines(errors, Line::Error, sender.clone());
        }
        drop(sender);
        let status = self.wait(&mut child, &lines, |line| match line {
            Line::Output(text) => see(&text),
            Line::Error(text) => say(&text),
        })?;
        if !status.success() {
            bail!("{} failed ({status})", self.what);
        }
        Ok(())
    }

    fn wait(
        &self,
        child: &mut Child,
        lines: &Receiver<Line>,
        mut see: impl FnMut(Line),
    ) -> Result<ExitStatus> {
        const PAUSE: Duration = Duration::from_millis(50);
        let mut clock = Clock::new(self.limit);
        loop {
            match lines.recv_timeout(PAUSE) {
                Ok(line) => {
                    see(line);
                    clock.quiet();
                }
                Err(error) => {
                    if let Some(status) = child.try_wait()? {
                        let end = Instant::now() + DRAIN;
                        while let Some(left) = end.checked_duration_since(Instant::now()) {
                            let Ok(line) = lines.recv_timeout(left) else { break };
                            see(line);
                        }
                        return Ok(status);
                    }
                    if error == RecvTimeoutError::Disconnected {
                        thread::sleep(PAUSE);
                    }
                }
            }
            self.tick(&mut clock, child)?;
        }
    }

    /// Says that the task is still running, or ends it when its time is over.
    fn tick(&self, clock: &mut Clock, child: &mut Child) -> Result<()> {
        let elapsed = clock.start.elapsed();
        if elapsed > clock.limit {
            kill_tree(child);
            child.wait()?;
            bail!("{}: stopped after {} s, its time limit", self.what, elapsed.as_secs());
        }
        if elapsed > clock.next_beat {
            say(&format!("{}: {} s", self.what, elapsed.as_secs()));
            clock.quiet();
        }
        Ok(())
    }
}

struct Clock {
    start: Instant,
    limit: Duration,
    next_beat: Duration,
}

impl Clock {
    fn new(limit: Duration) -> Self {
        Self { start: Instant::now(), limit, next_beat: HEARTBEAT }
    }

    /// Something was printed: the next word of this program can wait.
    fn quiet(&mut self) {
        self.next_beat = self.start.elapsed() + HEARTBEAT;
    }
}

enum Line {
    Output(String),
    Error(String),
}

fn read_lines(output: impl Read + Send + 'static, kind: fn(String) -> Line, to: Sender<Line>) {
    thread::spawn(move || {
        let mut reader = BufReader::new(output);
        let mut line = Vec::new();
        while let Ok(1..) = reader.read_until(b'\n', &mut line) {
            let text = String::from_utf8_lossy(&line);
            if to.send(kind(text.trim_end_matches(['\n', '\r']).to_owned())).is_err() {
                break;
            }
            line.clear();
        }
    });
}

/// Kills `child` and its descendants: browsers leave their parent's process group, so a signal
/// to the group would miss them.
fn kill_tree(child: &mut Child) {
    let doomed = descendants(child.id()).into_iter().map(|id| id.to_string());
    let _ = Command::new("sh").args(["-c", "kill -KILL \"$@\"", "kill"]).args(doomed).status();
    let _ = child.kill();
}

/// The process ids of `root` and, where there is /proc, of all that it started.
fn descendants(root: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let id: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
            Some((id, parent_in_stat(&stat)?))
        })
        .collect();
    let mut family = vec![root];
    let mut next = 0;
    while next < family.len() {
        let parent = family[next];
        family.extend(parents.iter().filter(|entry| entry.1 == parent).map(|entry| entry.0));
        next += 1;
    }
    family
}

/// The parent in a line of /proc/ID/stat: `ID (name) state parent …`, where the name may itself
/// hold brackets and blanks.
fn parent_in_stat(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Task {
        Task::new("script", "sh", limit).args(["-c", script])
    }

    #[test]
    fn output_is_complete() {
        let text = shell("printf 'a\\nb'", minutes(1)).output().unwrap();
        assert_eq!(text, "a\nb\n");
    }

    #[test]
    fn failure_names_the_task() {
        let error = shell("exit 3", minutes(1)).run().unwrap_err().to_string();
        assert!(error.contains("script failed") && error.contains('3'), "{error}");
    }

    #[test]
    fn a_program_that_is_missing_is_named() {
        let error = Task::new("x", "no-such-program", minutes(1)).run().unwrap_err();
        assert!(format!("{error:#}").contains("no-such-program"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_limit_ends_grandchildren_too() {
        let mut id = String::new();
        let task = shell("sh -c 'echo $$; exec sleep 600'; true", Duration::from_millis(500));
        let error = task.lines(|line| id = line.to_owned()).unwrap_err().to_string();
        assert!(error.contains("time limit"), "{error}");
        let gone = || {
            std::fs::read_to_string(format!("/proc/{id}/stat"))
                .map_or(true, |stat| stat.contains(") Z "))
        };
        let end = Instant::now() + minutes(1);
        while !gone() && Instant::now() < end {
            thread::sleep(Duration::from_millis(20));
        }
        assert!(!id.is_empty() && gone(), "process {id} still runs");
    }

    #[test]
    fn parent_is_found_behind_any_name() {
        assert_eq!(parent_in_stat("12 (a ) b) S 7 12 12 0"), Some(7));
        assert_eq!(parent_in_stat(""), None);
    }
}
