// The batch of a step as the host encodes it (kernels::batch): a header, then sections of u32 words.
// Token ids with LAST_SAMPLE set are indices into the table of last samples.
const LAST_SAMPLE = 0x80000000u;

struct Row { token: u32, position: u32, table: u32 }
struct Tile { row: u32, rows: u32 }
struct SampleRun { sample: u32, samples: u32 }
struct Pool { row: u32, rows: u32, slot: u32, begins: u32 }

fn row_count() -> u32 { return step[0]; }
fn logit_row_count() -> u32 { return step[1]; }
fn tile_count() -> u32 { return step[2]; }
fn sample_count() -> u32 { return step[3]; }
fn sample_run_count() -> u32 { return step[4]; }

fn row_at(i: u32) -> Row {
    let at = step[6] + 3u * i;
    return Row(step[at], step[at + 1u], step[at + 2u]);
}
fn logit_row(i: u32) -> u32 { return step[step[7] + i]; }
fn tile_at(i: u32) -> Tile {
    let at = step[8] + 2u * i;
    return Tile(step[at], step[at + 1u]);
}
// Word index of sample i's parameters (kernels::batch::SAMPLE_WORDS each).
fn sample_at(i: u32) -> u32 { return step[9] + 14u * i; }
// Word index of log-probability i's parameters, behind the samples: logit row, token or LAST_SAMPLE and
// a sample, number of most likely tokens, where in the results, where the named tokens are, how many.
fn logprob_at(i: u32) -> u32 { return sample_at(sample_count()) + 6u * i; }
fn pool_at(i: u32) -> Pool {
    let at = step[10] + 4u * i;
    return Pool(step[at], step[at + 1u], step[at + 2u], step[at + 3u]);
}
fn sample_run(i: u32) -> SampleRun {
    let at = step[11] + 2u * i;
    return SampleRun(step[at], step[at + 1u]);
}
