//! Embedding, normalisation and gathering of rows on the GPU against the same in plain Rust.
#![cfg(not(target_arch = "wasm32"))]

mod support;

use support::{Bench, activations, bits, floats, nmse, step, uniform};
use tabloom::{
    kernels::{Embed, Gather, RmsNorm, RowsOf, embed, gather, rms_norm},
    layout::{HostMatrix, Layout, row_stride},
};

fn seeded() -> fastrand::Rng {
    let seed = fastrand::Rng::new().u64(..);
    println!("seed {seed}");
    fastrand::Rng::with_seed(seed)
}

#[test]
fn embedding_of_known_and_sampled_tokens() {
    pollster::block_on(async {
        let (mut bench, mut rng) = (Bench::open().await, seeded());
        let (vocab, width) = (90, 172);
        for layout in [
            Layout::F32,
            Layout::F16,
            Layout::Bf16,
            Layout::W8 { group: 32 },
            Layout::W4 { group: 64 },
        ] {
            for rows in [1, 70] {
                let matrix =
                    HostMatrix::pack(layout, vocab, width, &uniform(&mut rng, vocab * width));
                let mut batch = step(rows, 1, vocab);
                let last_samples = [7, 81, 12];
                // The last row's token is the sample of slot 1.
                let token = batch.words[4] as usize + 4 * (rows - 1);
                batch.words[token] = 1 << 31 | 1;
                let before = uniform(&mut rng, (rows + 1) * row_stride(width));
                let mut expected = before.clone();
                embed::reference(&batch, &last_samples, &matrix, 0, &mut expected);

                // Whole, and split after token 40: each part adds its own rows.
                for splits in [&[(0, vocab)][..], &[(0, 40), (40, vocab)]] {
                    for tuning in bench.tunings() {
                        let mut out = bits(&before);
                        for &(start, end) in splits {
                            let kernel = Embed { layout, first: start, rows: end - start, width };
                            let words = layout.row_words(width);
                            let groups = layout.row_groups(width);
                            let mut buffers = vec![
                                &batch.words[..],
                                &last_samples,
                                &matrix.words[start * words..end * words],
                            ];
                            if groups > 0 {
                                let range = start * groups..end * groups;
                                buffers.push(&matrix.scales[range]);
                            }
                            buffers.push(&out);
                            out = bench.run(&kernel, tuning, &batch, &buffers).await.remove(0);
                        }
                        let (found, end) = (floats(&out), rows * row_stride(width));
                        let error = nmse(&expected[..end], &found[..end]);
                        assert!(error < 1e-13, "{layout:?} {tuning:?} {rows} rows: {error:e}");
                        for row in found[..end].chunks_exact(row_stride(width)) {
                            assert!(row[width..].iter().all(|v| *v == 0.0), "padding is zero");
                        }
                        assert_eq!(found[end..], before[end..], "rows past the last one");
                    }
                }
            }
        }
    });
}

#[test]
fn normalisation() {
    pollster::block_on(async {
        let (mut bench, mut rng) = (Bench::open().await, seeded());
        for (width, rows) in [(64, 1), (172, 5), (1376, 70)] {
            let stride = row_stride(width);
            let (x, weight) = (activations(&mut rng, rows + 1, width), uniform(&mut rng, width));
            let before = uniform(&mut rng, (rows + 1) * stride);
            let mut expected = vec![0.0; rows * stride];
            for (x, out) in x.chunks(stride).zip(expected.chunks_mut(stride)) {
                rms_norm::reference(&x[..width], &weight, 1e-5, &mut out[..width]);
            }
            for (of, batch) in
                [(RowsOf::Rows, step(rows, 1, 9)), (RowsOf::LogitRows, step(rows + 2, rows, 9))]
            {
                let kernel = RmsNorm { width, eps: 1e-5, rows: of };
                for tuning in bench.tunings() {
                    let [x, weight, before] = [&x, &weight, &before].map(|values| bits(values));
                    let buffers = [&batch.words[..], &x, &weight, &before];
                    let out = bench.run(&kernel, tuning, &batch, &buffers).await;
                    let (found, rest) = out[0].split_at(rows * stride);
                    let error = nmse(&expected, &floats(found));
                    assert!(error < 1e-12, "{kernel:?} {tuning:?} {rows} rows: {error:e}");
                    assert_eq!(rest, &before[rows * stride..], "rows past the last one");
                    for row in floats(found).chunks_exact(stride) {
                        assert!(row[width..].iter().all(|v| *v == 0.0), "padding is zero");
                    }
                }
            }
        }
    });
}

#[test]
fn gathering() {
    pollster::block_on(async {
        let (mut bench, mut rng) = (Bench::open().await, seeded());
        let width = 172;
        for (rows, logit_rows) in [(1, 1), (40, 1), (40, 17)] {
            let batch = step(rows, logit_rows, 9);
            let x = activations(&mut rng, rows, width);
            let before = uniform(&mut rng, (logit_rows + 1) * row_stride(width));
            let mut expected = before.clone();
            gather::reference(&batch, width, &x, &mut expected);
            for tuning in bench.tunings() {
                let (x, before) = (bits(&x), bits(&before));
                let buffers = [&batch.words[..], &x, &before];
                let out = bench.run(&Gather { width }, tuning, &batch, &buffers).await;
                assert_eq!(out[0], bits(&expected));
            }
        }
    });
}
