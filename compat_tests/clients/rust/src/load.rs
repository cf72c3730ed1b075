//! A producer that goes on sending numbered records until it is finished, in small batches round the partitions.
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::Utc;
use rskafka::client::partition::{Compression, PartitionClient};
use rskafka::record::Record;
use serde_json::{json, Value};
use tokio::task::JoinHandle;

use crate::failure::Failure;
use crate::partition;

const PARTITIONS: i64 = 2;
const BATCH: i64 = 3;
const PAUSE: Duration = Duration::from_millis(40);

#[derive(Default)]
struct Found {
    places: Mutex<Vec<[i64; 3]>>,
    failures: Mutex<Vec<String>>,
    finishing: AtomicBool,
}

pub struct Load {
    found: Arc<Found>,
    task: Option<JoinHandle<()>>,
}

async fn send(client: &PartitionClient, numbers: &[i64], found: &Found) {
    let records = numbers.iter().map(|number| Record {
        key: None,
        value: Some(number.to_string().into_bytes()),
        headers: Default::default(),
        timestamp: Utc::now(),
    });
    match client.produce(records.collect(), Compression::NoCompression).await {
        Ok(offsets) => {
            let partition = i64::from(client.partition());
            let places = numbers.iter().zip(offsets).map(|(number, offset)| [*number, partition, offset]);
            found.places.lock().expect("places").extend(places);
        }
        Err(error) => found.failures.lock().expect("failures").push(error.to_string()),
    }
}

async fn run(clients: Vec<PartitionClient>, found: Arc<Found>) {
    let mut first = 0;
    while !found.finishing.load(Ordering::Relaxed) {
        for (partition, client) in clients.iter().enumerate() {
            let numbers: Vec<i64> = (0..BATCH).map(|each| first + each * PARTITIONS + partition as i64).collect();
            send(client, &numbers, &found).await;
        }
        first += BATCH * PARTITIONS;
        tokio::time::sleep(PAUSE).await;
    }
}

impl Load {
    pub async fn start(question: &Value) -> Result<Self, Failure> {
        let mut clients = vec![];
        for number in 0..PARTITIONS {
            clients.push(partition(question, number as i32).await?);
        }
        let found = Arc::new(Found::default());
        let task = Some(tokio::spawn(run(clients, Arc::clone(&found))));
        Ok(Load { found, task })
    }

    pub fn state(&self) -> Value {
        json!(self.found.places.lock().expect("places").len())
    }

    pub async fn finish(&mut self) -> Value {
        self.found.finishing.store(true, Ordering::Relaxed);
        if let Some(task) = self.task.take() {
            task.await.expect("the load's task");
        }
        json!({
            "places": *self.found.places.lock().expect("places"),
            "failures": *self.found.failures.lock().expect("failures"),
        })
    }
}
