//! Records there and back.
use std::time::Instant;

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{BorrowedMessage, Header, Headers, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer};
use rdkafka::{Message, Timestamp};
use serde_json::{json, Value};

use crate::failure::{broken, Failure};
use crate::load::{Deliveries, Sender};
use crate::question::{Question, TIMEOUT};

pub fn unpacked(value: &Value) -> Result<Option<Vec<u8>>, Failure> {
    value.as_str().map(|packed| STANDARD.decode(packed).map_err(broken)).transpose()
}

fn packed(bytes: Option<&[u8]>) -> Value {
    bytes.map_or(Value::Null, |bytes| json!(STANDARD.encode(bytes)))
}

fn send(producer: &Sender, topic: &str, number: usize, sent: &Value) -> Result<(), Failure> {
    let mut headers = OwnedHeaders::new();
    for pair in sent["headers"].as_array().into_iter().flatten() {
        let value = unpacked(&pair[1])?;
        headers = headers.insert(Header { key: pair[0].as_str().unwrap_or_default(), value: value.as_deref() });
    }
    let (key, value) = (unpacked(&sent["key"])?, unpacked(&sent["value"])?);
    let mut record: BaseRecord<'_, [u8], [u8], usize> = BaseRecord::with_opaque_to(topic, number);
    record.headers = Some(headers);
    record.key = key.as_deref();
    record.payload = value.as_deref();
    record.partition = sent["partition"].as_i64().map(|partition| partition as i32);
    record.timestamp = sent["timestamp"].as_i64();
    producer.send(record).map_err(|(error, _)| error.into())
}

pub fn produce(question: &Question) -> Result<Value, Failure> {
    let mut config = question.config();
    config
        .set("compression.type", question.text("codec"))
        .set("enable.idempotence", question.0["idempotent"].to_string())
        .set("acks", question.number("acks").to_string())
        .set("message.max.bytes", question.number("limit").to_string())
        .set("linger.ms", "5")
        .set("partitioner", "murmur2_random")
        .set("message.timeout.ms", TIMEOUT.as_millis().to_string());
    let producer: Sender = config.create_with_context(Deliveries::default())?;
    let records = question.list("records");
    for (number, sent) in records.iter().enumerate() {
        send(&producer, question.topic(), number, sent)?;
    }
    producer.flush(TIMEOUT)?;
    let mut places = producer.context().places()?;
    places.sort_unstable();
    Ok(places.into_iter().map(|[_, partition, offset]| json!([partition, offset])).collect())
}

pub fn received(message: &BorrowedMessage<'_>) -> Value {
    let headers = message.headers().map_or(vec![], |headers| {
        headers.iter().map(|header| json!([header.key, packed(header.value)])).collect()
    });
    json!({
        "value": packed(message.payload()), "key": packed(message.key()), "headers": headers,
        "timestamp": message.timestamp().to_millis(), "partition": message.partition(), "offset": message.offset(),
        "append_time": matches!(message.timestamp(), Timestamp::LogAppendTime(_)),
    })
}

pub fn consume(question: &Question) -> Result<Value, Failure> {
    let isolation = if question.0["committed"] == json!(true) { "read_committed" } else { "read_uncommitted" };
    let mut config = question.consumer_config("none");
    let consumer: BaseConsumer =
        config.set("isolation.level", isolation).set("auto.offset.reset", "error").create()?;
    consumer.assign(&question.place(question.partition(), question.number("offset"))?)?;
    let count = question.number("count") as usize;
    let mut found = vec![];
    let started = Instant::now();
    while found.len() < count && started.elapsed() < TIMEOUT {
        if let Some(message) = consumer.poll(TIMEOUT / 80) {
            found.push(received(&message?));
        }
    }
    Ok(json!(found))
}
