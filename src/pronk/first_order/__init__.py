"""First-order learners: gradient descent, kernel expansions with budgets, DualSGD, DualSVRG."""
