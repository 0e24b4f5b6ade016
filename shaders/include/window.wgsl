// What a row sees of its sequence: the first SINKS positions, and those from window_start on.
const SINKS = {{ sinks }}u;

// The first of the last positions that a row sees; the sinks may reach beyond it.
fn window_start(position: u32) -> u32 {
{%- if window %}
    return max(position + 1u, {{ window }}u) - {{ window }}u;
{%- else %}
    return 0u;
{%- endif %}
}
// Whether a row whose window starts at `start` sees a position before it.
fn sees(start: u32, position: u32) -> bool {
    return position >= start || position < SINKS;
}
// The first position seen from `position` on.
fn next_seen(start: u32, position: u32) -> u32 {
    return select(max(start, position), position, position < SINKS);
}
