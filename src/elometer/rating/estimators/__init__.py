"""One module per estimator: objective, gradient and Hessian side by side."""
