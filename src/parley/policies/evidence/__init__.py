"""Evidence racing: `racing` is the policy, `regret` the same race while playing; the others are its parts."""
