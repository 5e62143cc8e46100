// A node of the C++ ps-lite library for `bench/kv.py`; the same role as `bench/kv_node.py`.
//
// A server keeps what was pushed last and answers pulls with it. A worker reads lines
// "push N KIND" and "pull N KIND" and writes the seconds of each; an empty line ends it. Of KIND
// "again" the keys are the same array each time, of "new" a copy of it.
#include <chrono>
#include <iostream>
#include <string>

#include "ps/ps.h"

namespace {

using Clock = std::chrono::steady_clock;
using Pairs = ps::KVPairs<float>;

void Serve() {
  auto* server = new ps::KVServer<float>(0);
  auto* last = new ps::SArray<float>();
  server->set_request_handle([last](const ps::KVMeta& meta, const Pairs& given,
                                    ps::KVServer<float>* self) {
    Pairs answer;
    if (meta.push) {
      *last = given.vals;
    } else {
      answer.keys = given.keys;
      answer.vals = last->segment(0, given.keys.size());
    }
    self->Response(meta, answer);
  });
  ps::RegisterExitCallback([server] { delete server; });
}

void Work() {
  ps::KVWorker<float> worker(0, 0);
  ps::SArray<ps::Key> keys;
  ps::SArray<float> values;
  std::cout << "ready" << std::endl;
  std::string line;
  while (std::getline(std::cin, line) && !line.empty()) {
    const size_t number = std::stoull(line.substr(5));
    if (keys.size() != number) {
      keys.resize(number);
      values.resize(number);
      for (size_t i = 0; i < number; ++i) {
        keys[i] = ps::kMaxKey / number * i;
        values[i] = static_cast<float>(i % 1000);
      }
    }
    ps::SArray<ps::Key> given = keys;
    if (line.back() == 'w') {
      given = ps::SArray<ps::Key>();
      given.CopyFrom(keys);
    }
    const auto start = Clock::now();
    if (line[1] == 'u' && line[2] == 's') {
      worker.Wait(worker.ZPush(given, values));
    } else {
      worker.Wait(worker.ZPull(given, &values));
    }
    const std::chrono::duration<double> took = Clock::now() - start;
    std::cout << took.count() << std::endl;
  }
}

}  // namespace

int main() {
  ps::Start(0);
  if (ps::IsServer()) Serve();
  if (ps::IsWorker()) Work();
  ps::Finalize(0, true);
  return 0;
}
