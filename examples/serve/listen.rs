//! Accepts connections: not more than there is room for, and none that never gets to its request.

use std::{io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use axum::Router;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto::Builder, graceful::GracefulShutdown},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpSocket},
    select,
    sync::Semaphore,
    time::sleep,
};

/// Connections at a time; others wait to be accepted. A process may often open 1024 files.
const MOST: usize = 900;
/// Connections that wait to be accepted; beyond these the system loses some, and their clients wait in vain.
const WAITING: u32 = 4096;
/// Longest wait for the head of a request, also for the next one of a connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// Listens at an address.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Connections of a server before need not be over.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(WAITING)
}

/// Serves connections until `stop` resolves, then ends when the running requests have ended.
pub async fn serve(listener: TcpListener, router: Router, stop: impl Future<Output = ()>) {
    // Without a look at the first bytes for HTTP/2, which would wait for them without end.
    let mut http = Builder::new(TokioExecutor::new()).http1_only();
    http.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    let (room, connections) = (Arc::new(Semaphore::new(MOST)), GracefulShutdown::new());
    let mut stop = pin!(stop);
    loop {
        let next = async {
            let place = room.clone().acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = select! {
            next = next => next,
            () = &mut stop => break,
        };
        let Ok((stream, _)) = accepted else {
            // Out of file descriptors, or the client has gone.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let service = TowerToHyperService::new(router.clone());
        let connection = http.serve_connection(TokioIo::new(stream), service).into_owned();
        let connection = connections.watch(connection);
        tokio::spawn(async move {
            // Only this connection has failed: its client has gone, or speaks no HTTP.
            let _ = connection.await;
            drop(place);
        });
    }
    connections.shutdown().await;
}
