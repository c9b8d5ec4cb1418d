"""Evidence racing: `racing` is the policy, `regret` its form for play; the other modules are its parts."""
