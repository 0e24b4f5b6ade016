//! Files that need each other in a cycle, so that none can be read before the rest.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// For each file, the other files it names something of, and what or what kind of thing.
pub type Graph = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// A shortest cycle through each file that is on one, without those that share a file with one
/// found before: `a.rs -> b.rs (names) -> a.rs (names)`.
pub fn cycles(graph: &Graph) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for start in graph.keys() {
        let Some(cycle) = shortest(graph, start) else { continue };
        if cycle.iter().any(|file| seen.contains(file)) {
            continue;
        }
        let mut text = start.to_string();
        for (file, next) in cycle.iter().zip(cycle[1..].iter().chain([&start])) {
            let names: Vec<&str> = graph[*file][*next].iter().map(String::as_str).collect();
            text += &format!(" -> {next} ({})", names.join(", "));
        }
        seen.extend(cycle);
        found.push(text);
    }
    found
}

/// The files of a shortest way from `start` back to it.
fn shortest<'a>(graph: &'a Graph, start: &'a String) -> Option<Vec<&'a String>> {
    let mut before: BTreeMap<&String, &String> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(file) = queue.pop_front() {
        for next in graph.get(file).into_iter().flat_map(BTreeMap::keys) {
            if next == start {
                let mut way = vec![file];
                while way[0] != start {
                    way.insert(0, before[way[0]]);
                }
                return Some(way);
            }
            if !before.contains_key(next) {
                before.insert(next, file);
                queue.push_back(next);
            }
        }
    }
    None
}
