//! Numbers that are quantised: the device's choices, against the host's.

use tabloom::{
    kernels::Repack,
    layout::{HostMatrix, Layout, unpack_halves},
    weights::Encoding,
};

use super::{FLOATS, OnTheGpu, encode, on_the_host};
use crate::support::{Bench, seeded, uniform};

#[test]
fn numbers_are_quantised_as_on_the_host() {
    pollster::block_on(async {
        let (mut bench, mut rng) = (Bench::open().await, seeded());
        let (n, k) = (20, 172);
        let mut values = uniform(&mut rng, n * k);
        values[k..2 * k].fill(0.25);
        values[2 * k..3 * k].fill(0.0);
        let differing = |a: &[u32], b: &[u32]| a.iter().zip(b).filter(|(a, b)| a != b).count();
        let (mut scales, mut words, mut squares) = ([0, 0], [0, 0], [0.0, 0.0]);
        for from in FLOATS {
            let bytes = encode(from, &values);
            for to in [
                Layout::W8 { group: 32 },
                Layout::W4 { group: 32 },
                Layout::W4 { group: 64 },
                Layout::W4 { group: 128 },
            ] {
                let host = on_the_host(to, (n, k), None, &[(Encoding::Float(from), k, &bytes)]);
                let mut device = OnTheGpu::new(&mut bench, to, n, k);
                device.repack(Repack::Numbers { from: from.layout(), to }, k, &bytes).await;
                let device = device.matrix;
                expect_as_good(&format!("{from:?} to {to:?}"), &device, &host, &values);
                scales[0] += differing(&device.scales, &host.scales);
                scales[1] += host.scales.len();
                words[0] += differing(&device.words, &host.words);
                words[1] += host.words.len();
                squares[0] += errors(&device, &values).iter().sum::<f64>();
                squares[1] += errors(&host, &values).iter().sum::<f64>();
            }
        }
        // Divisions may differ in the last bit, and with it the choice between nearly equal candidates.
        assert!(scales[0] <= scales[1] / 50, "{scales:?} scales");
        assert!(words[0] <= words[1] / 25, "{words:?} words");
        assert!(squares[0] <= squares[1] * 1.0001, "{squares:?}");
    });
}

/// The device's choices must be as good as the host's, however many differ, except for a scale and a
/// min between two f16 that are rounded the other way.
pub(super) fn expect_as_good(name: &str, device: &HostMatrix, host: &HostMatrix, values: &[f32]) {
    let (found, expected) = (errors(device, values), errors(host, values));
    let group = host.layout.quantised_group().expect("a quantised matrix has groups");
    let most = if matches!(host.layout, Layout::W8 { .. }) { 127.0 } else { 15.0 };
    for (i, pair) in host.scales.iter().enumerate() {
        let [scale, min] = unpack_halves(*pair).map(|half| f64::from(half.abs()));
        let ulps = (most * scale + min) * 2f64.powi(-10);
        let bound = expected[i].sqrt() * 1.00001 + ulps * (group as f64).sqrt();
        assert!(found[i].sqrt() <= bound, "{name}, group {i}: {} {}", found[i], expected[i]);
    }
}

/// The sum of squared errors in each group.
fn errors(matrix: &HostMatrix, values: &[f32]) -> Vec<f64> {
    let mut row = vec![0.0; matrix.k];
    let group = matrix.layout.quantised_group().expect("a quantised matrix has groups");
    let rows = values.chunks_exact(matrix.k).enumerate();
    rows.flat_map(|(i, values)| {
        matrix.dequantise_row(i, &mut row);
        let groups = row.chunks(group).zip(values.chunks(group));
        let squares = |(row, values): (&[f32], &[f32])| {
            row.iter().zip(values).map(|(a, b)| f64::from(a - b).powi(2)).sum()
        };
        groups.map(squares).collect::<Vec<f64>>()
    })
    .collect()
}
