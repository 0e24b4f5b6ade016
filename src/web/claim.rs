//! The claim to a download, among the site's workers.

use js_sys::Promise;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

use crate::weights::Claim;

#[wasm_bindgen]
extern "C" {
    /// The object that `pkg-template/models/claim.js` makes.
    #[derive(Clone)]
    #[wasm_bindgen(
        typescript_type = "{ readonly granted: Promise<boolean>, readonly lost: boolean, release(): void, tell(news: string): void, news(): Promise<string>, seize(): Promise<boolean> }"
    )]
    pub type BrowserClaim;
    #[wasm_bindgen(method, structural, getter, js_name = granted)]
    fn js_granted(this: &BrowserClaim) -> Promise;
    #[wasm_bindgen(method, structural, getter)]
    fn lost(this: &BrowserClaim) -> bool;
    /// Gives it up before the load ends.
    #[wasm_bindgen(method, structural)]
    pub fn release(this: &BrowserClaim);
    /// Tells the others how far the download is.
    #[wasm_bindgen(method, structural)]
    pub fn tell(this: &BrowserClaim, news: &str);
    #[wasm_bindgen(method, structural, js_name = news)]
    fn js_news(this: &BrowserClaim) -> Promise;
    #[wasm_bindgen(method, structural, js_name = seize)]
    fn js_seize(this: &BrowserClaim) -> Promise;
}

impl Claim for BrowserClaim {
    async fn granted(&self) -> bool {
        is_true(self.js_granted()).await
    }

    async fn news(&self) -> String {
        let news = JsFuture::from(self.js_news()).await;
        news.ok().and_then(|news| news.as_string()).unwrap_or_default()
    }

    async fn seize(&self) -> bool {
        is_true(self.js_seize()).await
    }

    fn is_lost(&self) -> bool {
        self.lost()
    }
}

async fn is_true(promise: Promise) -> bool {
    JsFuture::from(promise).await.is_ok_and(|value| value.is_truthy())
}
