fn main() -> anyhow::Result<()> {
    anyhow::bail!("usage: cargo xtask <demo|test|build|bench>")
}
