"""Evidence racing: `racing` is the policy, `regret` its variant for a study with a horizon; the rest serve both."""
