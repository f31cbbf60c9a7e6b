/** Texts for choosing a model. */
export const models = {
  models: {
    model: "Model",
    usual: (value: string) => (value ? `Default (${value})` : "Default"),
    title: "Choose a model",
    lead: "The agent uses this model for its next prompt and all later ones.",
    pick: (now: string) => (now ? `Model: ${now}` : "Choose a model"),
    use: "Use model",
    next: (name: string) => `From this prompt on: ${name}`,
    drop: "Keep the current model",
  },
} as const;
