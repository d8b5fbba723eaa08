package kinds

func Platform() string { return "Linux" }
