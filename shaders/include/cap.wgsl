{%- if cap %}
// CAP * tanh(x / CAP), in a form that cannot overflow.
fn capped(x: {{ number }}) -> {{ number }} {
    let shrunk = exp(abs(x) * (-2.0 / {{ cap }}));
    return sign(x) * {{ cap }} * (1.0 - shrunk) / (1.0 + shrunk);
}
{%- endif %}
