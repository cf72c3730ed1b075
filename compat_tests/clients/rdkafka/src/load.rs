//! What was delivered where, and a producer that goes on sending numbered records until it is finished.
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{sleep, spawn, JoinHandle};
use std::time::Duration;

use rdkafka::error::KafkaError;
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{ClientContext, Message};
use serde_json::{json, Value};

use crate::failure::Failure;
use crate::question::{Question, TIMEOUT};

const PARTITIONS: usize = 2;
const PAUSE: Duration = Duration::from_millis(8);

pub type Sender = ThreadedProducer<Deliveries>;

/// Number, partition and offset of what was taken, and why the rest was not.
#[derive(Default)]
pub struct Deliveries {
    places: Mutex<Vec<[i64; 3]>>,
    failures: Mutex<Vec<KafkaError>>,
}

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, number: usize) {
        match result {
            Ok(message) => {
                let place = [number as i64, message.partition().into(), message.offset()];
                self.places.lock().expect("places").push(place);
            }
            Err((error, _)) => self.failures.lock().expect("failures").push(error.clone()),
        }
    }
}

impl Deliveries {
    /// Where all of it went, or the first failure.
    pub fn places(&self) -> Result<Vec<[i64; 3]>, Failure> {
        match self.failures.lock().expect("failures").first() {
            Some(error) => Err(error.clone().into()),
            None => Ok(self.places.lock().expect("places").clone()),
        }
    }
}

pub struct Load {
    producer: Sender,
    finishing: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

fn run(producer: &Sender, topic: &str, finishing: &AtomicBool) {
    let mut number = 0;
    while !finishing.load(Ordering::Relaxed) {
        let value = number.to_string();
        let record: BaseRecord<'_, (), str, usize> = BaseRecord::with_opaque_to(topic, number);
        let record = record.payload(&value).partition((number % PARTITIONS) as i32);
        if let Err((error, _)) = producer.send(record) {
            producer.context().failures.lock().expect("failures").push(error);
        }
        number += 1;
        sleep(PAUSE);
    }
}

impl Load {
    pub fn start(question: &Question) -> Result<Self, Failure> {
        let mut config = question.config();
        config.set("enable.idempotence", "true").set("reconnect.backoff.max.ms", "500");
        let producer: Sender = config.create_with_context(Deliveries::default())?;
        let finishing = Arc::new(AtomicBool::new(false));
        let (own, topic, told) = (producer.clone(), question.topic().to_owned(), Arc::clone(&finishing));
        let thread = Some(spawn(move || run(&own, &topic, &told)));
        Ok(Load { producer, finishing, thread })
    }

    pub fn state(&self) -> Value {
        json!(self.producer.context().places.lock().expect("places").len())
    }

    pub fn finish(&mut self) -> Result<Value, Failure> {
        self.finishing.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the load's thread");
        }
        self.producer.flush(TIMEOUT)?;
        let found = self.producer.context();
        let failures: Vec<_> = found.failures.lock().expect("failures").iter().map(ToString::to_string).collect();
        Ok(json!({ "places": *found.places.lock().expect("places"), "failures": failures }))
    }
}
