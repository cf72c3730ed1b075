//! rskafka, asked through the agent's questions. It has neither groups nor transactions nor an idempotent producer.
mod failure;
mod load;
mod records;
mod security;

use std::collections::HashMap;
use std::io::{stdin, BufRead};
use std::time::Duration;

use rskafka::client::partition::{OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::BackoffConfig;
use serde_json::{json, Value};

use failure::{unsupported, Failure};
use load::Load;

const TIMEOUT: Duration = Duration::from_secs(40);
/// The library tries a refused login again until then.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(2);
const TIMEOUT_MS: i32 = 20_000;

/// The answers, and what goes on between questions.
#[derive(Default)]
struct Agent {
    loads: Vec<Load>,
}

pub async fn client(question: &Value) -> Result<Client, Failure> {
    let backoff = BackoffConfig {
        init_backoff: Duration::from_millis(50),
        max_backoff: Duration::from_millis(500),
        base: 2.0,
        deadline: Some(if question["settings"]["sasl"].is_null() { TIMEOUT } else { LOGIN_TIMEOUT }),
    };
    let addresses = text(question, "bootstrap").split(',').map(str::to_owned).collect();
    let mut builder = ClientBuilder::new(addresses).backoff_config(backoff);
    if let Some(tls) = security::tls(&question["settings"])? {
        builder = builder.tls_config(tls);
    }
    if let Some(sasl) = security::sasl(&question["settings"]) {
        builder = builder.sasl_config(sasl);
    }
    Ok(builder.build().await?)
}

pub async fn partition(question: &Value, partition: i32) -> Result<PartitionClient, Failure> {
    let client = client(question).await?;
    Ok(client.partition_client(text(question, "topic"), partition, UnknownTopicHandling::Error).await?)
}

pub fn text(question: &Value, name: &str) -> String {
    question[name].as_str().unwrap_or_default().to_owned()
}

pub fn number(question: &Value, name: &str) -> i64 {
    question[name].as_i64().unwrap_or_default()
}

async fn watermarks(question: &Value) -> Result<Value, Failure> {
    let place = partition(question, number(question, "partition") as i32).await?;
    let first = place.get_offset(OffsetAt::Earliest).await?;
    Ok(json!([first, place.get_offset(OffsetAt::Latest).await?]))
}

async fn offset_for_time(question: &Value) -> Result<Value, Failure> {
    let place = partition(question, number(question, "partition") as i32).await?;
    let time = records::time(number(question, "timestamp"))?;
    let found = place.get_offset(OffsetAt::Timestamp(time)).await?;
    Ok(if found < 0 { Value::Null } else { json!(found) })
}

async fn delete_records(question: &Value) -> Result<Value, Failure> {
    let place = partition(question, 0).await?;
    place.delete_records(number(question, "before"), TIMEOUT_MS).await?;
    Ok(json!(place.get_offset(OffsetAt::Earliest).await?))
}

async fn create_topic(question: &Value) -> Result<Value, Failure> {
    if question["configs"].as_object().is_some_and(|configs| !configs.is_empty()) {
        return Err(unsupported("rskafka creates topics without configurations"));
    }
    let controller = client(question).await?.controller_client()?;
    let partitions = number(question, "partitions") as i32;
    controller.create_topic(text(question, "topic"), partitions, -1, TIMEOUT_MS).await?;
    Ok(Value::Null)
}

async fn delete_topic(question: &Value) -> Result<Value, Failure> {
    let controller = client(question).await?.controller_client()?;
    controller.delete_topic(text(question, "topic"), TIMEOUT_MS).await?;
    Ok(Value::Null)
}

async fn topics(question: &Value) -> Result<Value, Failure> {
    let listed = client(question).await?.list_topics().await?;
    let counts: HashMap<_, _> = listed.into_iter().map(|topic| (topic.name, topic.partitions.len())).collect();
    Ok(json!(counts))
}

impl Agent {
    async fn answer(&mut self, question: &Value) -> Result<Value, Failure> {
        match text(question, "do").as_str() {
            "produce" => records::produce(question).await,
            "consume" => records::consume(question).await,
            "watermarks" => watermarks(question).await,
            "offset_for_time" => offset_for_time(question).await,
            "delete_records" => delete_records(question).await,
            "create_topic" => create_topic(question).await,
            "delete_topic" => delete_topic(question).await,
            "topics" => topics(question).await,
            "start_load" => {
                self.loads.push(Load::start(question).await?);
                Ok(json!(self.loads.len() - 1))
            }
            "load_state" => Ok(self.loads[number(question, "load") as usize].state()),
            "finish_load" => Ok(self.loads[number(question, "load") as usize].finish().await),
            other => Err(unsupported(&format!("rskafka can't {other}"))),
        }
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let mut agent = Agent::default();
    for line in stdin().lock().lines() {
        let question: Value = serde_json::from_str(&line.expect("a line")).expect("a question");
        let answer = runtime.block_on(async { tokio::time::timeout(2 * TIMEOUT, agent.answer(&question)).await });
        let reply = match answer {
            Ok(Ok(result)) => json!({ "result": result }),
            Ok(Err(failure)) => json!({ "error": failure.told() }),
            Err(_) => json!({ "error": { "code": -1, "message": "no answer in time" } }),
        };
        println!("{reply}");
    }
}
