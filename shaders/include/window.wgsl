// The attention window of a row: the first SINKS positions, and those from window_start on.
const SINKS = {{ sinks }}u;

// Start of the window proper; the sinks may reach beyond it.
fn window_start(position: u32) -> u32 {
{%- if window %}
    return max(position + 1u, {{ window }}u) - {{ window }}u;
{%- else %}
    return 0u;
{%- endif %}
}
// Whether a row whose window starts at `start` attends to an earlier position.
fn attends(start: u32, position: u32) -> bool {
    return position >= start || position < SINKS;
}
// The first visible position from `position` on.
fn next_visible(start: u32, position: u32) -> u32 {
    return select(max(start, position), position, position < SINKS);
}
