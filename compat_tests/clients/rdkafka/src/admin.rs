//! Topics, configurations, groups.
use std::collections::HashMap;
use std::future::Future;

use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaResult, RDKafkaErrorCode};
use rdkafka::Offset;
use serde_json::{json, Value};

use crate::failure::{broken, Failure};
use crate::question::{Question, TIMEOUT};

fn admin(question: &Question) -> Result<AdminClient<DefaultClientContext>, Failure> {
    Ok(question.config().create()?)
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(TIMEOUT)).operation_timeout(Some(TIMEOUT / 2))
}

/// The one result of a call that was made for one thing.
fn only<T>(asked: impl Future<Output = KafkaResult<Vec<T>>>) -> Result<T, Failure> {
    wait(asked)?.pop().ok_or_else(|| broken("no answer"))
}

fn wait<T>(asked: impl Future<Output = KafkaResult<T>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(broken)?;
    Ok(runtime.block_on(asked)?)
}

fn done<T>(result: Result<T, (String, RDKafkaErrorCode)>) -> Result<Value, Failure> {
    result.map_err(|(_, code)| code)?;
    Ok(Value::Null)
}

pub fn create_topic(question: &Question) -> Result<Value, Failure> {
    let partitions = question.number("partitions") as i32;
    let mut topic = NewTopic::new(question.topic(), partitions, TopicReplication::Fixed(-1));
    for (name, value) in question.0["configs"].as_object().into_iter().flatten() {
        topic = topic.set(name, value.as_str().unwrap_or_default());
    }
    done(only(admin(question)?.create_topics([&topic], &options()))?)
}

pub fn delete_topic(question: &Question) -> Result<Value, Failure> {
    done(only(admin(question)?.delete_topics(&[question.topic()], &options()))?)
}

pub fn topics(question: &Question) -> Result<Value, Failure> {
    let found = question.consumer("none")?.fetch_metadata(None, TIMEOUT)?;
    let counts: HashMap<_, _> = found.topics().iter().map(|topic| (topic.name(), topic.partitions().len())).collect();
    Ok(json!(counts))
}

pub fn add_partitions(question: &Question) -> Result<Value, Failure> {
    let wanted = NewPartitions::new(question.topic(), question.number("total") as usize);
    done(only(admin(question)?.create_partitions([&wanted], &options()))?)
}

pub fn configs(question: &Question) -> Result<Value, Failure> {
    let topic = ResourceSpecifier::Topic(question.topic());
    let found = only(admin(question)?.describe_configs([&topic], &options()))??;
    let values: HashMap<_, _> = found.entries.into_iter().map(|entry| (entry.name, entry.value)).collect();
    Ok(json!(values))
}

pub fn set_config(question: &Question) -> Result<Value, Failure> {
    let topic = ResourceSpecifier::Topic(question.topic());
    let change = AlterConfig::new(topic).set(question.text("key"), question.text("value"));
    only(admin(question)?.alter_configs([&change], &options()))?.map_err(|(_, code)| code)?;
    Ok(Value::Null)
}

pub fn delete_records(question: &Question) -> Result<Value, Failure> {
    let places = question.place(0, question.number("before"))?;
    let found = wait(admin(question)?.delete_records(&places, &options()))?;
    let element = &found.elements()[0];
    element.error()?;
    match element.offset() {
        Offset::Offset(low) => Ok(json!(low)),
        _ => Err(broken("no low watermark")),
    }
}

pub fn watermarks(question: &Question) -> Result<Value, Failure> {
    let (first, end) = question.consumer("none")?.fetch_watermarks(question.topic(), question.partition(), TIMEOUT)?;
    Ok(json!([first, end]))
}

pub fn offset_for_time(question: &Question) -> Result<Value, Failure> {
    let asked = question.place(question.partition(), question.number("timestamp"))?;
    let found = question.consumer("none")?.offsets_for_times(asked, TIMEOUT)?;
    Ok(match found.elements()[0].offset() {
        Offset::Offset(offset) => json!(offset),
        _ => Value::Null,
    })
}

pub fn describe_group(question: &Question) -> Result<Value, Failure> {
    let found = question.consumer("none")?.fetch_group_list(Some(question.text("group")), TIMEOUT)?;
    let group = found.groups().first().ok_or_else(|| broken("no such group"))?;
    Ok(json!([group.state(), group.protocol_type(), group.members().len()]))
}

pub fn groups(question: &Question) -> Result<Value, Failure> {
    let found = question.consumer("none")?.fetch_group_list(None, TIMEOUT)?;
    Ok(found.groups().iter().map(|group| json!(group.name())).collect())
}

pub fn delete_group(question: &Question) -> Result<Value, Failure> {
    done(only(admin(question)?.delete_groups(&[question.text("group")], &options()))?)
}
