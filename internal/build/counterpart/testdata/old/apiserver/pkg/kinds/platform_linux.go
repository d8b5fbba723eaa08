package kinds

func Platform() string { return "linux" }
