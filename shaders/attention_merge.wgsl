// attention_merge: folds the segments of each (row, head) from the partial results of attention.
// in   partials   array<f32> [segments][rows][HEADS][HEAD_DIM + 2]  o, m, l of each segment
{%- if sink_logits %}
//      sink_logits array<f32> [HEADS]  part of the softmax, without a value
{%- endif %}
// out  attention  array<f32> [rows][STRIDE]
// grid (HEADS, rows) workgroups of 64, one thread per dim modulo 64
@group(0) @binding(0) var<storage, read> step: array<u32>;
@group(0) @binding(1) var<storage, read> partials: array<f32>;
{%- if sink_logits %}
@group(0) @binding(2) var<storage, read> sink_logits: array<f32>;
@group(0) @binding(3) var<storage, read_write> attention: array<f32>;
{%- else %}
@group(0) @binding(2) var<storage, read_write> attention: array<f32>;
{%- endif %}

const HEADS = {{ heads }}u;
const HEAD_DIM = {{ head_dim }}u;
const STRIDE = {{ stride }}u;

{% include "include/step.wgsl" %}
{% include "include/window.wgsl" %}
{% include "include/softmax.wgsl" %}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let head = workgroup.x;
    let row = workgroup.y;
    let position = row_at(row).position;
    let segments = position / SEGMENT + 1u - hidden_segments(window_start(position));
    for (var d = thread; d < HEAD_DIM; d += 64u) {
{%- if sink_logits %}
        var m = sink_logits[head];
        var l = 1.0;
{%- else %}
        var m = LOWEST;
        var l = 0.0;
{%- endif %}
        var o = 0.0;
        for (var segment = 0u; segment < segments; segment++) {
            let at = ((segment * row_count() + row) * HEADS + head) * (HEAD_DIM + 2u);
            let f = fold(m, partials[at + HEAD_DIM]);
            m = f.m;
            l = fma(l, f.past, partials[at + HEAD_DIM + 1u] * f.next);
            o = fma(o, f.past, partials[at + d] * f.next);
        }
        attention[row * STRIDE + head * HEAD_DIM + d] = o / l;
    }
}
