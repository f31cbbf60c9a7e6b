/** The words by which models are chosen. */
export const models = {
  models: {
    model: "Model",
    usual: (value: string) => (value ? `Default (${value})` : "Default"),
    title: "Choose a model",
    lead: "The agent keeps the model from its next prompt on.",
    pick: (now: string) => (now ? `Model: ${now}` : "Choose a model"),
    use: "Use model",
    next: (name: string) => `From this prompt on: ${name}`,
    drop: "Keep the model as it is",
  },
} as const;
