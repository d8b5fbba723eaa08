package kinds

func OnlyInTest() {}
