//! What is asked, and the clients that it is asked of: a fresh one for each question.
use std::time::Duration;

use rdkafka::consumer::BaseConsumer;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use serde_json::Value;

use crate::failure::Failure;

pub const TIMEOUT: Duration = Duration::from_secs(40);

pub struct Question(pub Value);

impl Question {
    pub fn text(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or_default()
    }

    pub fn number(&self, name: &str) -> i64 {
        self.0[name].as_i64().unwrap_or_default()
    }

    pub fn list(&self, name: &str) -> &[Value] {
        self.0[name].as_array().map_or(&[], Vec::as_slice)
    }

    pub fn topic(&self) -> &str {
        self.text("topic")
    }

    pub fn partition(&self) -> i32 {
        self.number("partition") as i32
    }

    pub fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.text("bootstrap")).set("log_level", "0");
        for (name, value) in self.0["settings"].as_object().into_iter().flatten() {
            config.set(name, value.as_str().unwrap_or_default());
        }
        config
    }

    pub fn consumer_config(&self, group: &str) -> ClientConfig {
        let mut config = self.config();
        config
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .set("session.timeout.ms", "10000");
        config
    }

    pub fn consumer(&self, group: &str) -> Result<BaseConsumer, Failure> {
        Ok(self.consumer_config(group).create()?)
    }

    /// The topic's one place with this offset.
    pub fn place(&self, partition: i32, offset: i64) -> Result<TopicPartitionList, Failure> {
        let mut places = TopicPartitionList::new();
        places.add_partition_offset(self.topic(), partition, Offset::from_raw(offset))?;
        Ok(places)
    }
}
