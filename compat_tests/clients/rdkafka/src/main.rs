//! rdkafka, asked through the agent's questions.
mod admin;
mod failure;
mod groups;
mod load;
mod question;
mod records;
mod transactions;

use std::io::{stdin, BufRead};

use serde_json::{json, Value};

use failure::{unsupported, Failure};
use groups::Member;
use load::Load;
use question::Question;

/// What goes on between questions.
#[derive(Default)]
struct Agent {
    loads: Vec<Load>,
    members: Vec<Member>,
}

impl Agent {
    fn load(&mut self, question: &Question) -> &mut Load {
        &mut self.loads[question.number("load") as usize]
    }

    fn member(&mut self, question: &Question) -> &mut Member {
        &mut self.members[question.number("member") as usize]
    }

    /// What begins, goes on and ends.
    fn answer(&mut self, question: &Question) -> Result<Value, Failure> {
        match question.text("do") {
            "start_load" => {
                self.loads.push(Load::start(question)?);
                Ok(json!(self.loads.len() - 1))
            }
            "load_state" => Ok(self.load(question).state()),
            "finish_load" => self.load(question).finish(),
            "join" => {
                self.members.push(Member::join(question)?);
                Ok(json!(self.members.len() - 1))
            }
            "poll" => self.member(question).poll(),
            "commit_member" => self.member(question).commit(),
            "leave" => Ok(self.member(question).leave()),
            other => answer_at_once(other, question),
        }
    }
}

fn answer_at_once(what: &str, question: &Question) -> Result<Value, Failure> {
    match what {
        "produce" => records::produce(question),
        "consume" => records::consume(question),
        "transact" => transactions::transact(question),
        "fence" => transactions::fence(question),
        "commit" => groups::commit(question),
        "committed" => groups::committed(question),
        "watermarks" => admin::watermarks(question),
        "offset_for_time" => admin::offset_for_time(question),
        "create_topic" => admin::create_topic(question),
        "delete_topic" => admin::delete_topic(question),
        "topics" => admin::topics(question),
        "add_partitions" => admin::add_partitions(question),
        "configs" => admin::configs(question),
        "set_config" => admin::set_config(question),
        "delete_records" => admin::delete_records(question),
        "describe_group" => admin::describe_group(question),
        "groups" => admin::groups(question),
        "delete_group" => admin::delete_group(question),
        other => Err(unsupported(&format!("rdkafka can't {other}"))),
    }
}

fn main() {
    let mut agent = Agent::default();
    for line in stdin().lock().lines() {
        let question = Question(serde_json::from_str(&line.expect("a line")).expect("a question"));
        let reply = match agent.answer(&question) {
            Ok(result) => json!({ "result": result }),
            Err(failure) => json!({ "error": failure.told() }),
        };
        println!("{reply}");
    }
}
