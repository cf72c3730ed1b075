//! Transactions, one after the other, and a producer that is fenced.
use rdkafka::consumer::Consumer;
use rdkafka::producer::{BaseRecord, Producer};
use serde_json::{json, Value};

use crate::failure::{broken, Failure};
use crate::load::{Deliveries, Sender};
use crate::question::{Question, TIMEOUT};
use crate::records::unpacked;

fn producer(question: &Question) -> Result<Sender, Failure> {
    let mut config = question.config();
    let made: Sender = config
        .set("transactional.id", question.text("transactional_id"))
        .create_with_context(Deliveries::default())?;
    made.init_transactions(TIMEOUT)?;
    Ok(made)
}

fn write(producer: &Sender, topic: &str, value: &[u8]) -> Result<(), Failure> {
    let record: BaseRecord<'_, (), [u8], usize> = BaseRecord::with_opaque_to(topic, 0);
    producer.send(record.payload(value).partition(0)).map_err(|(error, _)| error.into())
}

pub fn transact(question: &Question) -> Result<Value, Failure> {
    let producer = producer(question)?;
    for each in question.list("transactions") {
        producer.begin_transaction()?;
        for value in each["values"].as_array().into_iter().flatten() {
            write(&producer, question.topic(), &unpacked(value)?.unwrap_or_default())?;
        }
        if let Some(group) = each["group"].as_str() {
            let metadata = question.consumer(group)?.group_metadata().ok_or_else(|| broken("no group"))?;
            let offset = each["offset"].as_i64().unwrap_or_default();
            producer.send_offsets_to_transaction(&question.place(0, offset)?, &metadata, TIMEOUT)?;
        }
        producer.flush(TIMEOUT)?;
        if each["commit"] == json!(true) {
            producer.commit_transaction(TIMEOUT)?;
        } else {
            producer.abort_transaction(TIMEOUT)?;
        }
    }
    Ok(Value::Null)
}

pub fn fence(question: &Question) -> Result<Value, Failure> {
    let mut started = vec![];
    for value in ["old", "new"] {
        let each = producer(question)?;
        each.begin_transaction()?;
        write(&each, question.topic(), value.as_bytes())?;
        each.flush(TIMEOUT)?;
        started.push(each);
    }
    started[1].commit_transaction(TIMEOUT)?;
    match started[0].commit_transaction(TIMEOUT) {
        Err(refusal) => Ok(json!(Failure::from(refusal).code)),
        Ok(()) => Err(broken("the first producer was not fenced")),
    }
}
