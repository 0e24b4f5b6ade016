//! Sources of a model's files.

use futures::future::Either;

use super::Chunk;
use crate::error::{Error, Result};

/// Most bytes of a file that is read as a whole (configuration, tokenizer).
const SMALL_FILE_BYTES: u64 = 64 << 20;

/// A folder of files, local or remote.
#[allow(async_fn_in_trait)] // single-threaded by design: no future crosses threads
pub trait Source {
    type Stream: ByteStream;

    /// Opens a file at its first byte; `None` if the folder has no such file.
    async fn open(&self, file: &str) -> Result<Option<Self::Stream>>;

    /// Opens a file at byte `start` or, if that is not possible, before it; returns the position.
    /// `None` if the folder has no such file.
    async fn open_near(&self, file: &str, _start: u64) -> Result<Option<(Self::Stream, u64)>> {
        Ok(self.open(file).await?.map(|stream| (stream, 0)))
    }

    /// The GGUF file that is the model, if the model is not the whole folder.
    fn gguf(&self) -> Option<&str> {
        None
    }

    /// The name of a file for messages.
    fn locate(&self, file: &str) -> String {
        file.into()
    }

    /// Reads a whole small file; `None` if the folder has no such file.
    ///
    /// If a server answers with an HTML page, the file counts as missing.
    async fn read_optional(&self, file: &str) -> Result<Option<Vec<u8>>> {
        let mut stream = match self.open(file).await {
            Ok(Some(stream)) => stream,
            Ok(None) | Err(Error::Malformed { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        read_to_end(file, &mut stream).await.map(Some)
    }

    /// Reads a whole small file.
    async fn read(&self, file: &str) -> Result<Vec<u8>> {
        let mut stream = self.open(file).await?.ok_or_else(|| missing(self, file))?;
        read_to_end(file, &mut stream).await
    }
}

/// A folder inside another folder, or that folder itself if it has no name.
pub struct Within<'a, S> {
    pub source: &'a S,
    pub folder: &'static str,
}

impl<S: Source> Source for Within<'_, S> {
    type Stream = S::Stream;

    async fn open(&self, file: &str) -> Result<Option<Self::Stream>> {
        self.source.open(&self.path(file)).await
    }

    async fn open_near(&self, file: &str, start: u64) -> Result<Option<(Self::Stream, u64)>> {
        self.source.open_near(&self.path(file), start).await
    }

    fn gguf(&self) -> Option<&str> {
        self.source.gguf().filter(|_| self.folder.is_empty())
    }

    fn locate(&self, file: &str) -> String {
        self.source.locate(&self.path(file))
    }
}

impl<'a, S> Within<'a, S> {
    /// The folder itself. Generic code over nested folders is then compiled once.
    pub fn all(source: &'a S) -> Within<'a, S> {
        Within { source, folder: "" }
    }

    fn path(&self, file: &str) -> String {
        match self.folder {
            "" => file.into(),
            folder => format!("{folder}/{file}"),
        }
    }
}

/// A source whose files can be read from any byte on.
#[allow(async_fn_in_trait)]
pub trait RangeSource: Source {
    /// Opens a file at byte `start`, which may be its end; `None` if the folder has no such file.
    async fn open_at(&self, file: &str, start: u64) -> Result<Option<Self::Stream>>;

    /// The address of a file, by which it is stored.
    fn address(&self, file: &str) -> String;
}

/// What a file says of its own length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    Exactly(u64),
    /// Bytes may follow that mean nothing.
    AtLeast(u64),
}

/// The bytes of a file in order. Dropping it stops the transfer.
#[allow(async_fn_in_trait)]
pub trait ByteStream {
    /// Length of the whole file, if known.
    fn length(&self) -> Option<u64>;

    /// Sets the length of the file, which the source may not know.
    fn expect(&mut self, _length: Length) {}

    /// A value that changes with the file, if the source has one.
    fn version(&self) -> Option<&str> {
        None
    }

    /// Returns the next bytes; `None` at the end of the file.
    async fn next(&mut self) -> Result<Option<Chunk>>;
}

impl<A: Source, B: Source> Source for Either<A, B> {
    type Stream = Either<A::Stream, B::Stream>;

    async fn open(&self, file: &str) -> Result<Option<Self::Stream>> {
        Ok(match self {
            Either::Left(source) => source.open(file).await?.map(Either::Left),
            Either::Right(source) => source.open(file).await?.map(Either::Right),
        })
    }

    async fn open_near(&self, file: &str, start: u64) -> Result<Option<(Self::Stream, u64)>> {
        Ok(match self {
            Either::Left(source) => {
                let opened = source.open_near(file, start).await?;
                opened.map(|(stream, start)| (Either::Left(stream), start))
            }
            Either::Right(source) => {
                let opened = source.open_near(file, start).await?;
                opened.map(|(stream, start)| (Either::Right(stream), start))
            }
        })
    }

    fn gguf(&self) -> Option<&str> {
        match self {
            Either::Left(source) => source.gguf(),
            Either::Right(source) => source.gguf(),
        }
    }

    fn locate(&self, file: &str) -> String {
        match self {
            Either::Left(source) => source.locate(file),
            Either::Right(source) => source.locate(file),
        }
    }
}

impl<A: RangeSource, B: RangeSource> RangeSource for Either<A, B> {
    async fn open_at(&self, file: &str, start: u64) -> Result<Option<Self::Stream>> {
        Ok(match self {
            Either::Left(source) => source.open_at(file, start).await?.map(Either::Left),
            Either::Right(source) => source.open_at(file, start).await?.map(Either::Right),
        })
    }

    fn address(&self, file: &str) -> String {
        match self {
            Either::Left(source) => source.address(file),
            Either::Right(source) => source.address(file),
        }
    }
}

impl<A: ByteStream, B: ByteStream> ByteStream for Either<A, B> {
    fn length(&self) -> Option<u64> {
        match self {
            Either::Left(stream) => stream.length(),
            Either::Right(stream) => stream.length(),
        }
    }

    fn expect(&mut self, length: Length) {
        match self {
            Either::Left(stream) => stream.expect(length),
            Either::Right(stream) => stream.expect(length),
        }
    }

    fn version(&self) -> Option<&str> {
        match self {
            Either::Left(stream) => stream.version(),
            Either::Right(stream) => stream.version(),
        }
    }

    async fn next(&mut self) -> Result<Option<Chunk>> {
        match self {
            Either::Left(stream) => stream.next().await,
            Either::Right(stream) => stream.next().await,
        }
    }
}

/// The error for a missing file that a folder must have.
pub fn missing(source: &(impl Source + ?Sized), file: &str) -> Error {
    Error::Fetch { what: source.locate(file), reason: "there is no such file".into() }
}

pub(super) async fn read_to_end(file: &str, stream: &mut impl ByteStream) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.next().await? {
        let start = bytes.len();
        if (start + chunk.len()) as u64 > SMALL_FILE_BYTES {
            return Err(Error::Malformed {
                what: file.into(),
                expected: "file of a model".into(),
                found: format!("it has over {SMALL_FILE_BYTES} bytes"),
            });
        }
        bytes.resize(start + chunk.len(), 0);
        chunk.copy_to(&mut bytes[start..]);
    }
    if let Some(expected) = stream.length().filter(|expected| *expected != bytes.len() as u64) {
        return Err(Error::Truncated { what: file.into(), expected, found: bytes.len() as u64 });
    }
    Ok(bytes)
}

#[cfg(not(target_arch = "wasm32"))]
pub use folder::{FolderSource, FolderStream};

#[cfg(not(target_arch = "wasm32"))]
mod folder {
    use super::{ByteStream, Source};
    use crate::error::{Error, Result};
    use crate::weights::Chunk;
    use std::fs::File;
    use std::io::{ErrorKind, Read, Seek, SeekFrom};
    use std::path::PathBuf;

    /// Bytes of one read.
    const READ_BYTES: u64 = 1 << 20;

    /// A folder on disk.
    pub struct FolderSource {
        path: PathBuf,
        gguf: Option<String>,
    }

    impl FolderSource {
        /// Sets the path of a folder, or of a GGUF file; nothing is read yet.
        pub fn new(path: impl Into<PathBuf>) -> FolderSource {
            let path = path.into();
            let is_gguf =
                path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gguf"));
            let file = path.file_name().and_then(|name| name.to_str()).filter(|_| is_gguf);
            match (file.map(String::from), path.parent()) {
                (Some(file), Some(folder)) => {
                    FolderSource { path: folder.into(), gguf: Some(file) }
                }
                _ => FolderSource { path, gguf: None },
            }
        }
    }

    /// A file on disk.
    pub struct FolderStream {
        path: PathBuf,
        file: File,
        length: u64,
    }

    fn failed(path: &std::path::Path, error: std::io::Error) -> Error {
        Error::Fetch { what: path.display().to_string(), reason: error.to_string() }
    }

    impl Source for FolderSource {
        type Stream = FolderStream;

        fn gguf(&self) -> Option<&str> {
            self.gguf.as_deref()
        }

        async fn open(&self, file: &str) -> Result<Option<FolderStream>> {
            let path = self.path.join(file);
            let file = match File::open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(failed(&path, error)),
            };
            let length = file.metadata().map_err(|error| failed(&path, error))?.len();
            Ok(Some(FolderStream { path, file, length }))
        }

        async fn open_near(&self, file: &str, start: u64) -> Result<Option<(FolderStream, u64)>> {
            let Some(mut stream) = self.open(file).await? else { return Ok(None) };
            let sought = stream.file.seek(SeekFrom::Start(start));
            sought.map_err(|error| failed(&stream.path, error))?;
            Ok(Some((stream, start)))
        }
    }

    impl ByteStream for FolderStream {
        fn length(&self) -> Option<u64> {
            Some(self.length)
        }

        async fn next(&mut self) -> Result<Option<Chunk>> {
            let mut bytes = Vec::new();
            let mut file = (&self.file).take(READ_BYTES);
            file.read_to_end(&mut bytes).map_err(|error| failed(&self.path, error))?;
            Ok((!bytes.is_empty()).then(|| bytes.into()))
        }
    }
}
