// Nibbles in words of checkpoints.
{% if packing %}
// The nibble of a row and a column of the piece, [job.staged][job.columns].
fn packed_nibble(row: u32, column: u32) -> u32 {
{%- if packing == "Rows" %}
    let word = staged[row * ((job.columns + 7u) / 8u) + column / 8u];
    let place = column % 8u;
{%- elif packing in ["HighHalves", "LowHalves"] %}
    let at = row * job.columns + column;
    let word = staged[at / 4u];
    let place = at % 4u * 2u{% if packing == "HighHalves" %} + 1u{% endif %};
{%- elif packing == "HighFirst" %}
    let word = staged[row * ((job.columns + 7u) / 8u) + column / 8u];
    let place = (column % 8u) ^ 1u;
{%- elif packing == "Transposed" %}
    let word = staged[column / 8u * job.staged + row];
    let place = column % 8u;
{%- elif packing == "RowsOfEight" %}
    let word = staged[row / 8u * job.columns + column];
    let place = row % 8u;
{%- else %}
    let word = staged[column * ((job.staged + 7u) / 8u) + row / 8u];
    let place = {% if packing == "AwqColumns" %}row % 8u / 2u + row % 2u * 4u{% else %}row % 8u{% endif %};
{%- endif %}
    // If stored values are one less in each nibble, adding 1 carries over.
    return ((word{% if wraps %} + 0x11111111u{% endif %}) >> (4u * place)) & 15u;
}
{% endif %}
