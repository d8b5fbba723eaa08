package other

func Here() {}

func Moved() string { return "moved" }
