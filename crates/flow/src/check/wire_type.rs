//! Whether what flows along an edge fits where it goes.

mod typed;

use serde_json::value::RawValue;

use super::schema::Schemas;
use super::words;
use crate::compile::{Bound, Context, Flow, GraphDraft};
use crate::definition::Node;
use crate::problem::{Place, Problems, Quoted, code};
use crate::program::Root;
use typed::{Fit, Type};

/// Looks at all that flows in one graph.
pub(crate) fn check<'s>(
    context: &Context<'s>,
    draft: &GraphDraft<'s>,
    schemas: &mut Schemas<'s>,
    problems: &mut Problems,
) {
    for flow in &draft.edges.flows {
        let Some(from) = type_at(context, &flow.from, schemas) else { continue };
        let Some(to) = type_at(context, &flow.to, schemas) else { continue };
        let fit = from.fits(&to);
        if fit != Fit::Yes {
            tell(context, flow, (&from, &to, fit), problems);
        }
    }
}

/// What the schema says about the value behind a port; `None` where it says nothing.
fn type_at<'s>(context: &Context<'s>, bound: &Bound, schemas: &mut Schemas<'s>) -> Option<Type> {
    let (node, root, path): (&Node<'s>, _, _) = match &bound.inside {
        Some(inside) => {
            let graph = context.other(inside.graph);
            (graph.node(inside.node as usize)?, inside.root, &inside.path)
        }
        None => (context.source().node(bound.node as usize)?, bound.root, &bound.path),
    };
    let node = match bound.middleware {
        Some(level) => node.middlewares.items().get(level as usize)?.given()?,
        None => node,
    };
    // A node that is executed per element gives a list of what its schema describes.
    if root == Root::Results && node.map.given().is_some() {
        return None;
    }
    let given = node.schema.given()?;
    let text = match root {
        Root::Parameters => given.parameters,
        Root::Results => given.results,
    };
    Type::below(&schemas.of(text.map(RawValue::get)?).value, path)
}

fn tell(
    context: &Context<'_>,
    flow: &Flow,
    (from, to, fit): (&Type, &Type, Fit),
    problems: &mut Problems,
) {
    let source = context.source();
    let edge = source.workflow.edges.items().get(flow.edge).and_then(|edge| edge.given());
    let ends = edge.and_then(|edge| Some((edge.source.given()?, edge.target.given()?)));
    let Some((begin, end)) = ends else { return };
    let sentence = sentence((&key(begin.port.text()), from), (&key(end.port.text()), to), fit);
    let root = source.place();
    let edges = root.key("edges");
    let place: Place<'_> = edges.index(flow.edge).about(end.node.text());
    match fit {
        Fit::Yes => {}
        Fit::No | Fit::NoChoice => {
            problems.error(code::WIRE_TYPE, &place, format_args!("{sentence}"));
        }
        Fit::Sometimes | Fit::SomeChoices => {
            problems.warning(code::WIRE_TYPE, &place, format_args!("{sentence}"));
        }
    }
}

/// What people call a port; of a middleware's the last part.
fn key(port: &str) -> String {
    Quoted(port.rsplit(':').next().unwrap_or(port)).to_string()
}

fn sentence((begin, from): (&str, &Type), (end, to): (&str, &Type), fit: Fit) -> String {
    let (is, wants) = (from.words(), to.words());
    let choices = words::options(&to.choices_value());
    match fit {
        Fit::Yes => format!("{begin} fits {end}"),
        Fit::No => format!(
            "{begin} is {is}; {end} wants {wants}; connect it to another port, or put a node \
             between that converts it"
        ),
        Fit::Sometimes => {
            format!("{begin} is {is}; {end} wants {wants}, so some values will not fit")
        }
        Fit::NoChoice => {
            format!("{begin} never is what {end} wants; it must be one of {choices}")
        }
        Fit::SomeChoices => {
            format!(
                "{begin} may be something that {end} does not take; it must be one of {choices}"
            )
        }
    }
}
