"""Evidence racing: `racing` is the policy, `regret` its variant for play; the other modules serve both."""
