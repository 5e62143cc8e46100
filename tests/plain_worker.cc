// A worker of the C++ library: pushes 1 to a few keys, several times, and checks what it pulls.
// With an argument, it then pushes to that key too, which the job may lack.
#include <string>
#include <vector>

#include "ps/ps.h"

int main(int argc, char** argv) {
  ps::Start(0);
  ps::KVWorker<float> worker(0, 0);
  const std::vector<ps::Key> keys = {0, 1, 5, 40};
  const std::vector<float> ones(keys.size(), 1.0f);
  std::vector<float> pulled;
  float before = 0;
  for (int i = 0; i < 20; ++i) {
    worker.Wait(worker.Push(keys, ones));
    pulled.clear();
    worker.Wait(worker.Pull(keys, &pulled));
    if (pulled[3] < before + 1) return 1;
    before = pulled[3];
  }
  if (argc > 1) {
    const std::vector<ps::Key> one = {std::stoull(argv[1])};
    worker.Wait(worker.Push(one, {1.0f}));
  }
  ps::Finalize(0, true);
  return 0;
}
