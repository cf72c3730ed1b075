//! Offsets of groups, and members that poll in threads of their own.
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{spawn, JoinHandle};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{Offset, TopicPartitionList};
use serde_json::{json, Value};

use crate::failure::{broken, Failure};
use crate::question::{Question, TIMEOUT};
use crate::records::received;

const POLL: Duration = Duration::from_millis(100);
const NOWHERE_TO_BEGIN: [RDKafkaErrorCode; 2] = [RDKafkaErrorCode::AutoOffsetReset, RDKafkaErrorCode::NoOffset];

pub fn commit(question: &Question) -> Result<Value, Failure> {
    let mut places = TopicPartitionList::new();
    for pair in question.list("offsets") {
        let (partition, offset) = (pair[0].as_i64().unwrap_or_default(), pair[1].as_i64().unwrap_or_default());
        places.add_partition_offset(question.topic(), partition as i32, Offset::Offset(offset))?;
    }
    question.consumer(question.text("group"))?.commit(&places, CommitMode::Sync)?;
    Ok(Value::Null)
}

pub fn committed(question: &Question) -> Result<Value, Failure> {
    let consumer = question.consumer(question.text("group"))?;
    let found = consumer.committed_offsets(question.place(question.partition(), -1001)?, TIMEOUT)?;
    Ok(match found.elements()[0].offset() {
        Offset::Offset(offset) => json!(offset),
        _ => Value::Null,
    })
}

#[derive(Default)]
struct Seen {
    received: Vec<Value>,
    assignment: Vec<i32>,
    failure: Option<KafkaError>,
}

pub struct Member {
    seen: Arc<Mutex<Seen>>,
    commits: Option<Sender<Sender<Result<(), KafkaError>>>>,
    thread: Option<JoinHandle<()>>,
}

/// Polls until nobody can ask for a commit any more.
fn run(consumer: &BaseConsumer, seen: &Mutex<Seen>, commits: &Receiver<Sender<Result<(), KafkaError>>>) {
    loop {
        let message = consumer.poll(POLL);
        let assignment = consumer.assignment().map(|places| places.elements().iter().map(|each| each.partition()).collect());
        {
            let mut seen = seen.lock().expect("what was seen");
            match message {
                Some(Ok(message)) => seen.received.push(received(&message)),
                Some(Err(error)) if error.rdkafka_error_code().is_some_and(|code| NOWHERE_TO_BEGIN.contains(&code)) => {
                    seen.failure = Some(error);
                }
                _ => {}
            }
            seen.assignment = assignment.unwrap_or_default();
        }
        match commits.try_recv() {
            Ok(answer) => answer.send(consumer.commit_consumer_state(CommitMode::Sync)).expect("who asked"),
            Err(std::sync::mpsc::TryRecvError::Disconnected) => return,
            Err(std::sync::mpsc::TryRecvError::Empty) => {}
        }
    }
}

impl Member {
    pub fn join(question: &Question) -> Result<Self, Failure> {
        let reset = if question.text("reset") == "none" { "error" } else { question.text("reset") };
        let mut config = question.consumer_config(question.text("group"));
        let consumer: BaseConsumer =
            config.set("heartbeat.interval.ms", "500").set("auto.offset.reset", reset).create()?;
        consumer.subscribe(&[question.topic()])?;
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (asking, asked) = channel();
        let own = Arc::clone(&seen);
        let thread = Some(spawn(move || run(&consumer, &own, &asked)));
        Ok(Member { seen, commits: Some(asking), thread })
    }

    pub fn poll(&self) -> Result<Value, Failure> {
        let mut seen = self.seen.lock().expect("what was seen");
        if let Some(failure) = &seen.failure {
            return Err(failure.clone().into());
        }
        let received = std::mem::take(&mut seen.received);
        Ok(json!({ "assignment": seen.assignment, "received": received }))
    }

    pub fn commit(&self) -> Result<Value, Failure> {
        let (answering, answer) = channel();
        self.commits.as_ref().ok_or_else(|| broken("it has left"))?.send(answering).map_err(broken)?;
        answer.recv().map_err(broken)??;
        Ok(Value::Null)
    }

    pub fn leave(&mut self) -> Value {
        self.commits = None;
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the member's thread");
        }
        Value::Null
    }
}
