//! Where a layer's keys and values are: its KV group, and its place in the blocks of the group.

use crate::{
    kernels::{KvGroup, KvKind},
    model::ModelConfig,
    step::{KvGroups, MAX_GROUPS, Window},
};

/// Where a layer's keys and values are.
///
/// All blocks have the same number of places, each with the keys and values of one layer; a layer reads and
/// writes the blocks of its group at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvPlace {
    pub group: KvGroup,
    pub place: usize,
}

/// The window of a layer, where `window` is that of all layers: a layer never attends beyond its own
/// window, and sinks are used if they fit into it.
pub fn layer_window(config: &ModelConfig, layer: usize, window: Option<Window>) -> Option<Window> {
    let Some(own) = config.attention[layer].window else { return window };
    match window {
        Some(window) if window.sinks + window.tokens <= own => Some(window),
        window => {
            let tokens = window.map_or(own, |window| window.tokens.min(own));
            Some(Window { sinks: 0, tokens })
        }
    }
}

/// The groups of a model whose layers have KV caches of these kinds; no layer attends beyond `window`.
///
/// Layers of the same window are distributed over groups of about as many layers, such that few places stay
/// empty. Layers of different kinds share no blocks of different groups, so then there is one group.
pub fn kv_groups(config: &ModelConfig, kinds: &[KvKind], window: Option<Window>) -> KvGroups {
    let mut layers: Vec<(Option<Window>, usize)> = Vec::new();
    for layer in 0..config.layers {
        let own = layer_window(config, layer, window);
        match layers.iter_mut().find(|(window, _)| *window == own) {
            Some((_, count)) => *count += 1,
            None => layers.push((own, 1)),
        }
    }
    let is_mixed = kinds.windows(2).any(|pair| pair[0] != pair[1]);
    if is_mixed || layers.len() < 2 || layers.len() > MAX_GROUPS {
        return KvGroups::one(window);
    }
    let width = |window: &Option<Window>| window.map_or(usize::MAX, |w| w.sinks + w.tokens);
    layers.sort_by_key(|(window, _)| std::cmp::Reverse(width(window)));
    let groups = |places: usize| layers.iter().map(move |(_, count)| count.div_ceil(places));
    let fits = |places: &usize| groups(*places).sum::<usize>() <= MAX_GROUPS;
    // Of those with the fewest places in all, the fewest groups.
    let most = (1..=config.layers).rev().filter(fits);
    let places = most.min_by_key(|places| groups(*places).sum::<usize>() * places);
    let counts = groups(places.unwrap_or(config.layers));
    let windows = layers.iter().zip(counts);
    KvGroups::new(windows.flat_map(|((window, _), count)| std::iter::repeat_n(*window, count)))
}

/// The place of each layer. Layers whose window no group has are in the first group, which attends to most.
pub fn kv_places(config: &ModelConfig, groups: KvGroups) -> Vec<KvPlace> {
    let mut taken = [0; MAX_GROUPS];
    let kv_place = |layer: usize| {
        let own = layer_window(config, layer, groups.widest());
        let with_it = groups.windows().enumerate().filter(|(_, window)| *window == own);
        let index = with_it.map(|(at, _)| at).min_by_key(|at| taken[*at]).unwrap_or(0);
        taken[index] += 1;
        KvPlace { group: KvGroup { index, count: groups.count() }, place: taken[index] - 1 }
    };
    (0..config.layers).map(kv_place).collect()
}

/// The kind of KV cache at each place of a block; `kinds`: of each layer.
pub fn kinds_of_places(kv_places: &[KvPlace], kinds: &[KvKind]) -> Vec<KvKind> {
    let mut places = Vec::new();
    for (kv_place, kind) in kv_places.iter().zip(kinds) {
        if kv_place.place == places.len() {
            places.push(*kind);
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::{Capacity, HostMemory};

    /// A model whose layers `slides` chooses see a window of 512 tokens.
    fn model(layers: usize, slides: impl Fn(usize) -> bool) -> ModelConfig {
        let types: Vec<_> = (0..layers)
            .map(|layer| if slides(layer) { "sliding_attention" } else { "full_attention" })
            .collect();
        let json = serde_json::json!({
            "architectures": ["Gemma3ForCausalLM"], "hidden_size": 16, "intermediate_size": 16,
            "num_hidden_layers": layers, "num_attention_heads": 2, "num_key_value_heads": 1,
            "head_dim": 8, "vocab_size": 10, "max_position_embeddings": 4096,
            "sliding_window": 512, "layer_types": types, "query_pre_attn_scalar": 8,
            "rms_norm_eps": 1e-6,
        });
        ModelConfig::from_json(json.to_string().as_bytes()).unwrap()
    }

    fn groups(config: &ModelConfig) -> KvGroups {
        kv_groups(config, &vec![KvKind::F16; config.layers], config_window(config))
    }

    fn config_window(config: &ModelConfig) -> Option<Window> {
        config.window().map(|tokens| Window { sinks: 0, tokens })
    }

    /// Number of groups that see all, number of those that see a window, places of a block.
    fn shape(config: &ModelConfig) -> [usize; 3] {
        let groups = groups(config);
        let full = groups.windows().filter(Option::is_none).count();
        let kv_places = kv_places(config, groups);
        let places = kinds_of_places(&kv_places, &vec![KvKind::F16; config.layers]).len();
        [full, groups.count() - full, places]
    }

    #[test]
    fn layers_that_see_a_window_are_in_groups_of_as_many_layers_as_see_all() {
        let every = |n: usize| move |layer: usize| layer % n != n - 1;
        // Gemma 2 2B and gpt-oss 20B; Gemma 3 270M, 1B, 4B and 12B.
        assert_eq!(shape(&model(26, every(2))), [1, 1, 13]);
        assert_eq!(shape(&model(24, every(2))), [1, 1, 12]);
        assert_eq!(shape(&model(18, every(6))), [1, 5, 3]);
        assert_eq!(shape(&model(26, every(6))), [1, 6, 4]);
        assert_eq!(shape(&model(34, every(6))), [1, 6, 5]);
        assert_eq!(shape(&model(48, every(6))), [1, 5, 8]);
        // All layers see the same; one sees all.
        assert_eq!(shape(&model(5, |_| true)), [0, 1, 5]);
        assert_eq!(shape(&model(5, |_| false)), [1, 0, 5]);
        assert_eq!(shape(&model(31, |layer| layer > 0)), [1, 6, 5]);
    }

    #[test]
    fn a_long_context_needs_a_fifth_of_the_memory_where_most_layers_see_a_window() {
        // Gemma 3 270M and 1B.
        for layers in [18, 26] {
            let config = model(layers, |layer| layer % 6 != 5);
            let [_, _, places] = shape(&config);
            // In keys and values of a layer's blocks.
            let memory = |groups: KvGroups, places: usize| {
                let capacity = Capacity {
                    rows: 256,
                    seqs: 1,
                    logit_rows: 1,
                    blocks: usize::MAX,
                    context: 32_768,
                    vocab: config.vocab,
                    groups,
                    host: HostMemory::NONE,
                };
                capacity.blocks_of(32_768) * places
            };
            let (grouped, whole) =
                (memory(groups(&config), places), memory(KvGroups::FULL, layers));
            assert!(6 * grouped > whole && 5 * grouped < whole, "{grouped} of {whole}");
        }
    }

    #[test]
    fn every_layer_has_a_place_of_its_own_in_a_group_that_sees_what_it_sees() {
        let config = model(26, |layer| layer % 6 != 5);
        let groups = groups(&config);
        let kv_places = kv_places(&config, groups);
        for (layer, kv_place) in kv_places.iter().enumerate() {
            let window = groups.windows().nth(kv_place.group.index).unwrap();
            assert_eq!(window, layer_window(&config, layer, None), "layer {layer}");
            assert_eq!(
                kv_places.iter().filter(|other| *other == kv_place).count(),
                1,
                "layer {layer}"
            );
        }
    }

    #[test]
    fn layers_of_different_kinds_are_in_one_group() {
        let config = model(4, |layer| layer % 2 == 0);
        let mut kinds = [KvKind::Int8; 4];
        assert_eq!(kv_groups(&config, &kinds, None).count(), 2);
        kinds[3] = KvKind::F16;
        assert_eq!(kv_groups(&config, &kinds, None), KvGroups::FULL);
        let kv_places = kv_places(&config, KvGroups::FULL);
        assert_eq!(kinds_of_places(&kv_places, &kinds), kinds);
    }

    #[test]
    fn a_layer_attends_within_its_own_window_and_that_of_all_layers() {
        let json = br#"{"architectures": ["Gemma2ForCausalLM"], "hidden_size": 16,
            "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
            "vocab_size": 10, "max_position_embeddings": 4096, "rms_norm_eps": 1e-6,
            "head_dim": 8, "sliding_window": 100}"#;
        let config = ModelConfig::from_json(json).unwrap();
        let window = |sinks, tokens| Some(Window { sinks, tokens });
        for (all, local) in [
            (None, window(0, 100)),
            (window(0, 200), window(0, 100)),
            (window(0, 60), window(0, 60)),
            (window(16, 84), window(16, 84)),
            (window(16, 90), window(0, 90)),
            (window(16, 1000), window(0, 100)),
        ] {
            assert_eq!(layer_window(&config, 0, all), local);
            assert_eq!(layer_window(&config, 1, all), all);
        }
    }
}
